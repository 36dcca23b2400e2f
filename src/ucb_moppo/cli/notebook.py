"""What a person sees of a run that trains in a notebook: a bar in the cell's output that is kept up to date."""

from __future__ import annotations

from html import escape
from pathlib import Path
from time import perf_counter
from typing import Any

from ucb_moppo.cli.clock import Clock, describe_plan, describe_stage
from ucb_moppo.config import RunConfig
from ucb_moppo.engine.learner import Plan, StageRecord
from ucb_moppo.policy.html import NO_MATHEMATICS
from ucb_moppo.training.reporter import Silent, format_seconds

SECONDS_BETWEEN_UPDATES = 0.25
"""Every update is a message to the browser; nobody sees more of them than this."""


class Shown:
    """A bar with words: as HTML where that can be shown, else as text."""

    def __init__(self, words: str, done: int, total: int) -> None:
        self.words, self.done, self.total = words, done, total

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        lines = "<br>".join(escape(line) for line in self.words.splitlines())
        bar = f'<progress value="{self.done}" max="{self.total}" style="width: 100%"></progress>'
        return f'<div class="{NO_MATHEMATICS}">{bar}<br>{lines}</div>'


class NotebookBar(Silent):
    """A bar in a notebook; needs IPython alone, no widgets."""

    def __init__(self) -> None:
        self._clock, self._at = Clock(), 0.0
        self._handle: Any = None

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None:
        from IPython.display import display

        self._clock.start(plan)
        self._plan = describe_plan(config, plan, path)
        self._stage, self._found, self._iteration = 0, "", plan.done
        self._handle = display(self._shown(), display_id=True)

    def iteration(self, iteration: int) -> None:
        self._iteration = iteration
        if perf_counter() - self._at > SECONDS_BETWEEN_UPDATES:
            self._update()

    def stage(self, record: StageRecord) -> None:
        self._stage, self._found, self._iteration = record.stage, describe_stage(record), record.iteration
        self._update()

    def stop(self) -> None:
        if self._handle is not None:
            self._update()
            self._handle = None

    def _update(self) -> None:
        self._at = perf_counter()
        self._handle.update(self._shown())

    def _shown(self) -> Shown:
        plan, done = self._clock.plan, self._iteration
        words = [f"stage {self._stage}/{plan.num_stages}", f"{done / plan.num_iterations:.0%}"]
        if done > plan.done:
            words += [f"{self._clock.rate(done):,.0f} steps/s", f"{format_seconds(self._clock.left(done))} left"]
        return Shown(f"{self._plan}\n{'  '.join([*words, self._found])}", done, plan.num_iterations)
