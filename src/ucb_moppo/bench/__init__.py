"""Sweeps: methods × problems × seeds, each cell an ordinary run, with a small result file to share.

May import the root, `envs`, `peers`, `runtime`, `store` and `training`; not the command line.
"""
