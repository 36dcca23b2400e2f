"""Reports: one self-contained page about one run or several, with its figures and tables as files."""

from ucb_moppo.report.write import write_report

__all__ = ["write_report"]
