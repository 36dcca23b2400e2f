"""Where work runs: in this process, in processes of this machine or in a Ray cluster, for shards and cells alike.

May import the root and `engine`, whose shards it places.
"""
