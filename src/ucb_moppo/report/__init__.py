"""Reports: one self-contained page about one run or several, with its figures and tables as files.

May import the root, `objectives`, `store`, `training` and `bench`; not the viewer or the command line.
"""

from ucb_moppo.report.write import write_report

__all__ = ["write_report"]
