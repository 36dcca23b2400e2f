"""Pictures of a report that show what has been drawn before are not drawn again: drawing is nearly all it costs.

A picture is a function of a run. While one is made, everything it asks of the run is noted, with what it found;
where another run answers every one of these questions alike, the picture is the same. Everything else of a report
is done as ever: reading, checking, tables, files and the page.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from ucb_moppo.report import style, write
from ucb_moppo.report.runs import RunData
from ucb_moppo.report.style import Picture

MISSING = "nothing has this name"
Answers = dict[tuple[Any, ...], bytes]
"""Where something was looked for in a run, and what was there."""

PICTURES = ("front", "pairs", "indicators", "growth", "selection", "surrogate", "costs", "interpolation")
"""Those that a report draws of a single run."""
Maker = Callable[..., Picture | None]


class Noted(Mapping[str, Any]):
    """A record that notes what is asked of it."""

    def __init__(self, record: Mapping[str, Any], place: tuple[Any, ...], notes: Answers) -> None:
        self._record, self._place, self._notes = record, place, notes

    def __getitem__(self, name: str) -> Any:
        self._notes[(*self._place, name)] = as_bytes(self._record.get(name, MISSING))
        return self._record[name]

    def __iter__(self) -> Iterator[str]:
        self._notes[self._place] = as_bytes(dict(self._record))
        return iter(self._record)

    def __len__(self) -> int:
        return len(list(iter(self)))


class NotedRun(RunData):
    """A run that notes what is asked of it: of its records name by name, of tables all."""

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name not in FIELDS:
            return found
        notes = object.__getattribute__(self, "notes")
        if name in ("summary", "config"):
            return Noted(found, (name,), notes)
        if name == "metrics":
            notes["metrics", "length"] = as_bytes(len(found))
            return [Noted(line, (name, number), notes) for number, line in enumerate(found)]
        notes[(name,)] = as_bytes(found)
        return found


FIELDS = {field.name for field in fields(RunData)}


def noting(run: RunData, notes: Answers) -> NotedRun:
    noted = object.__new__(NotedRun)
    noted.__dict__.update({name: getattr(run, name) for name in FIELDS}, notes=notes)
    return noted


def as_bytes(value: Any) -> bytes:
    return pickle.dumps(value)


def answer(run: RunData, place: tuple[Any, ...]) -> bytes:
    """What a run has at a place that was noted of another."""
    found = getattr(run, place[0])
    if place == ("metrics", "length"):
        return as_bytes(len(found))
    for step in place[1:]:
        if isinstance(found, Sequence) and step >= len(found):
            return as_bytes(MISSING)
        found = found[step] if isinstance(found, Sequence) else found.get(step, MISSING)
    return as_bytes(found)


class DrawnBefore:
    """Pictures that have been drawn while it was learning, by what was asked to make them."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, bytes], tuple[Answers, Picture | None]] = {}
        self.files: dict[int, tuple[Picture, tuple[bytes, str]]] = {}
        self.learning = True
        self._draw = style.draw_picture

    def make(self, name: str, maker: Maker, given: Any) -> Picture | None:
        """What ``maker`` makes of a run, or of a run with a study: known, or made now."""
        run, study = (given, None) if isinstance(given, RunData) else given[0]
        key = (name, as_bytes(study))
        if not self.learning:
            answers, picture = self.known.get(key, ({("name",): b""}, None))
            same = all(answer(run, place) == value for place, value in answers.items())
            return picture if same else maker(given)
        notes: Answers = {}
        noted = noting(run, notes)
        picture = maker(noted if study is None else [(noted, study)])
        self.known[key] = (notes, picture)
        return picture

    def draw(self, picture: Picture) -> tuple[bytes, str]:
        if id(picture) in self.files:
            return self.files[id(picture)][1]
        drawn = self._draw(picture)
        if self.learning:
            self.files[id(picture)] = (picture, drawn)
        return drawn


@contextmanager
def drawing_once() -> Iterator[DrawnBefore]:
    """Remember what is drawn meanwhile of a single run; afterwards draw nothing of it again in this process."""
    drawn = DrawnBefore()

    def remembered(name: str, maker: Maker) -> Maker:
        return lambda given: drawn.make(name, maker, given)

    for name in (f"{what}_picture" for what in PICTURES):
        setattr(write, name, remembered(name, getattr(write, name)))
    style.draw_picture = drawn.draw
    yield drawn
    drawn.learning = False
