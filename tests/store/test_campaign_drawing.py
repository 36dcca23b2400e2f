"""Pictures that the campaign of mutations does not draw again are those that show what was drawn before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import trust_drawing
from sample_runs import SampleRun

from ucb_moppo.report import style, write
from ucb_moppo.report.load import load_data
from ucb_moppo.report.runs import RunData
from ucb_moppo.report.style import Picture

NAMES = [f"{what}_picture" for what in trust_drawing.PICTURES]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunData:
    for name in NAMES:
        monkeypatch.setattr(write, name, getattr(write, name))
    monkeypatch.setattr(style, "draw_picture", lambda picture: (b"png", picture.title))
    return load_data(SampleRun(num_stages=3).write(tmp_path / "run"))


def made_again(run: RunData, before: dict[str, Picture]) -> set[str]:
    return {name.removesuffix("_picture") for name in before if getattr(write, name)(run) is not before[name]}


def test_only_what_shows_something_else_is_made_again(run: RunData) -> None:
    names = ("front_picture", "indicators_picture", "growth_picture", "selection_picture", "costs_picture")
    with trust_drawing.drawing_once():
        before = {name: getattr(write, name)(run) for name in names}
    everything = {name.removesuffix("_picture") for name in names}
    assert made_again(replace(run), before) == set()
    assert made_again(replace(run, summary=run.summary | {"seconds": 7.0}), before) == set()
    assert made_again(replace(run, summary=run.summary | {"method": "mean"}), before) == everything
    assert made_again(replace(run, history=run.history[:-1]), before) == {"growth"}
    metrics = json.loads(json.dumps(run.metrics))
    metrics[1]["sparsity"] = 123.0
    assert made_again(replace(run, metrics=metrics), before) == {"indicators"}


def test_files_of_a_picture_are_remembered_and_others_drawn(run: RunData) -> None:
    with trust_drawing.drawing_once() as drawn:
        front = write.front_picture(run)
        files = style.draw_picture(front)
    assert style.draw_picture(front) is files
    other = write.front_picture(replace(run, summary=run.summary | {"method": "mean"}))
    assert style.draw_picture(other) is not files
    assert len(drawn.files) == 1


def test_a_study_of_interpolation_is_looked_at_too(run: RunData) -> None:
    names = ("weights_per_policy", "hypervolume", "expected_utility", "sparsity", "evaluation_steps", "held_out")
    study = {name: run.series("hypervolume")[:2] for name in names}
    with trust_drawing.drawing_once():
        before = write.interpolation_picture([(run, study)])
    assert write.interpolation_picture([(run, dict(study))]) is before
    assert write.interpolation_picture([(run, study | {"sparsity": study["sparsity"] + 1})]) is not before
