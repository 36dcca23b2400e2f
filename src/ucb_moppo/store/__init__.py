"""What is on disk: files read without trusting them, the run directory, checkpoints and the lock of one writer.

May import the root, `objectives` and `policy`. `layout` says which file is whose.
"""
