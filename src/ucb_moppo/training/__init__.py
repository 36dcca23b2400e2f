"""One run from start to end: train, resume and evaluate again, with one loop that records, saves and stops.

May import everything below it (`engine`, `runtime`, `store`, `peers`); not the command line.
"""
