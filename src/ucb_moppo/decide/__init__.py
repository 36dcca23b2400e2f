"""From a front to a decision: bounds, aspirations, landmarks, questions, a short list, and what a choice will do.

Pure functions of what policies return, with numpy alone. May import `objectives` and the root; knows nothing of
files, environments or the command line. All objectives are maximised.
"""
