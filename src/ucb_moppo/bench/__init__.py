"""Sweeps: methods × problems × seeds, each cell an ordinary run, with a small result file to share.

May import the root and every room below it (`training`, `runtime`, `store`, …); not reports or the command line.
"""
