"""What learns: the algorithms that turn a rollout into a better policy, pure functions vmapped over K policies.

May import the root and `policy`; knows nothing of environments, files or the command line.
"""
