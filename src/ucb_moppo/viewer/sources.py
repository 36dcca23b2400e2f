"""The runs a page shows: read again when their files change, and never by a path that came from the page."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.report.load import load_data
from ucb_moppo.report.runs import RunData
from ucb_moppo.store.layout import EVALUATIONS, FRONT, MANIFEST, METRICS, SUMMARY
from ucb_moppo.store.run import load_run

MAIN, OTHER = "main", "other"
"""The ids by which a page names its runs."""


@dataclass(frozen=True)
class RunReading:
    """What a run's files said when they were last read: its data, or why there is none."""

    stamp: str
    """Changes when the run's files do."""
    data: RunData | None
    fault: str = ""
    """Why there is none."""


class Source:
    """One run on disk."""

    def __init__(self, path: Path) -> None:
        load_run(path)  # what is no run at all is refused before anything is served
        self.path = path
        self._lock = threading.Lock()
        self._reading: RunReading | None = None

    def stamp(self) -> str:
        """When and how large the files are that the page is made of."""
        parts = []
        for name in (METRICS, EVALUATIONS, FRONT, MANIFEST, SUMMARY):
            try:
                stat = (self.path / name).stat()
                parts.append(f"{stat.st_mtime_ns}.{stat.st_size}")
            except OSError:
                parts.append("-")
        return "/".join(parts)

    def read(self) -> RunReading:
        """The run as it stands; one that cannot be read says why instead."""
        with self._lock:
            stamp = self.stamp()
            if self._reading is None or self._reading.stamp != stamp:
                self._reading = self._read_files(stamp)
            return self._reading

    def _read_files(self, stamp: str) -> RunReading:
        try:
            return RunReading(stamp, load_data(self.path))
        except RunFormatError as fault:
            return RunReading(stamp, None, str(fault))
        except (OSError, ValueError, KeyError, TypeError, IndexError) as fault:
            return RunReading(stamp, None, f"{self.path} cannot be read as a run: {type(fault).__name__}: {fault}")


def open_sources(run: Path, compare: Path | None) -> Mapping[str, Source]:
    """The runs of a page by id; two that cannot be laid over each other are refused."""
    sources = {MAIN: Source(run)}
    if compare is not None:
        sources[OTHER] = Source(compare)
        problems = [load_run(path).config.get("problem") for path in (run, compare)]
        if problems[0] != problems[1]:
            raise ConfigError(
                f"{run} is a run of {problems[0]} and --compare {compare} one of {problems[1]}; "
                "lay runs of the same problem over each other"
            )
    return sources
