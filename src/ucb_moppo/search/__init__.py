"""What to train on next: surrogates predict, acquisitions score, selections pick; methods put the three together.

May import the root and `objectives`; knows nothing of policies, files or the command line.
"""
