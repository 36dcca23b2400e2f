"""The command line: commands, their options, progress and tables on a terminal, trackers.

May import every room; nothing imports it but the package's own door.
"""
