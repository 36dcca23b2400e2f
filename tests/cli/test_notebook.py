"""What a notebook shows while a run trains: told by hand, with a display that writes down what it is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import IPython.display
import numpy as np
import pytest
from rich.console import Console
from tiny_runs import tiny_settings

from ucb_moppo.cli import notebook, progress
from ucb_moppo.config import resolve
from ucb_moppo.engine.learner import Plan, StageRecord
from ucb_moppo.envs import make_spec

CONFIG = resolve(tiny_settings(), make_spec("Swimmer-v2", 20))
PLAN = Plan(num_iterations=10, num_stages=5, training_steps=800, num_policies=2, evaluation_steps=480, seconds=3.0)
FOUND = {"hypervolume": 12.0, "expected_utility": 3.0}


class Display:
    """IPython's ``display`` and the handle that it returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[notebook.Shown] = []
        monkeypatch.setattr(IPython.display, "display", self)

    def __call__(self, shown: notebook.Shown, display_id: bool) -> Display:
        assert display_id
        self.shown.append(shown)
        return self

    def update(self, shown: notebook.Shown) -> None:
        self.shown.append(shown)


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    return Display(monkeypatch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes when a test says so."""
    now = [100.0]
    for module in (notebook, progress.Clock.start.__globals__):
        holder: Any = module if isinstance(module, dict) else vars(module)
        monkeypatch.setitem(holder, "perf_counter", lambda: now[0])
    return now


def stage(number: int, iteration: int) -> StageRecord:
    return StageRecord(number, iteration, 80 * iteration, 40, 1.0, np.zeros((2, 2, 2)), FOUND)


def test_one_output_is_kept_up_to_date(display: Display, clock: list[float]) -> None:
    bar = notebook.NotebookBar()
    bar.start(CONFIG, PLAN, Path("runs/it"))
    bar.stage(stage(0, 0))
    clock[0] += 2.0
    bar.iteration(4)
    bar.stage(stage(2, 4))
    lines = [repr(shown).splitlines() for shown in display.shown]
    assert lines[0][0] == "ucb on Swimmer-v2: 2 policies, seed 0, 5 stages, writing to runs/it"
    # 4 of 10 iterations in 2 s: 320 steps, and 3 s left at that pace.
    assert [line[-1] for line in lines] == [
        "stage 0/5  0%  ",
        "stage 0/5  0%  HV 12  EU 3",
        "stage 0/5  40%  160 steps/s  3 s left  HV 12  EU 3",
        "stage 2/5  40%  160 steps/s  3 s left  HV 12  EU 3",
    ]
    assert '<progress value="4" max="10"' in display.shown[-1]._repr_html_()


def test_iterations_that_nobody_could_see_are_not_shown(display: Display, clock: list[float]) -> None:
    bar = notebook.NotebookBar()
    bar.start(CONFIG, PLAN, Path("runs/it"))
    for iteration in range(1, 10):
        clock[0] += 0.1
        bar.iteration(iteration)
    assert [shown.done for shown in display.shown] == [0, 1, 4, 7]  # at once, then whenever over 0.25 s have passed
    bar.stop()
    assert display.shown[-1].done == 9  # the last of them always is
    bar.stop()  # a second time is nothing
    assert len(display.shown) == 5


def test_names_are_words(display: Display, clock: list[float]) -> None:
    bar = notebook.NotebookBar()
    bar.start(replace(CONFIG, problem="<script>x</script>"), PLAN, Path("runs/<b>"))
    page = display.shown[0]._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_a_notebook_gets_the_bar_and_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(progress.make_reporter(), progress.PlainLines)
    monkeypatch.setattr(progress, "Console", lambda **options: Console(**options, force_jupyter=True))
    assert isinstance(progress.make_reporter(), notebook.NotebookBar)
