"""What learns: algorithms that turn a rollout into better policies; `base` says what the engine asks of one.

May import `errors`, `spec`, `seeding` and `policy`; knows nothing of environments, files or the command line.
"""
