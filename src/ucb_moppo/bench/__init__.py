"""Sweeps: methods × problems × seeds, each cell an ordinary run, with a small result file to share."""
