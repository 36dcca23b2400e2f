"""A user's own functions: what they are told, how they stop a run, and that it can go on after they have failed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import TINY, assert_same

import ucb_moppo
from ucb_moppo.engine.learner import StageRecord
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.store.checkpoint import list_checkpoints
from ucb_moppo.training.callbacks import asks_to_stop

# Ten iterations in stages of two: stage z ends after iteration 2z, and stage 0 comes before anything is trained.
SETTINGS: dict[str, Any] = TINY | {"checkpoint_seconds": 1000.0, "checkpoint_stages": 100}


def train(path: Path, **more: Any) -> ucb_moppo.Run:
    return ucb_moppo.train("Swimmer-v2", out=path, quiet=True, **SETTINGS | more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    """A run that nobody has interfered with."""
    return train(tmp_path_factory.mktemp("runs") / "whole")


class OwnError(Exception):
    pass


def fails_at(number: int) -> Callable[[Any], None]:
    """A function that fails at an iteration or a stage."""

    def fail(told: Any) -> None:
        if getattr(told, "stage", told) == number:
            raise OwnError(f"at {number}")

    return fail


def test_functions_are_told_of_every_iteration_and_stage_and_change_nothing(
    tmp_path: Path, whole: ucb_moppo.Run
) -> None:
    told: list[Any] = []
    run = train(tmp_path / "run", on_stage=told.append, on_iteration=told.append)
    stages = [event for event in told if isinstance(event, StageRecord)]
    assert [e.stage if isinstance(e, StageRecord) else f"iteration {e}" for e in told] == [
        *(0, "iteration 1", "iteration 2", 1, "iteration 3", "iteration 4", 2, "iteration 5", "iteration 6", 3),
        *("iteration 7", "iteration 8", 4, "iteration 9", "iteration 10", 5),
    ]
    for stage, line in zip(stages, run.metrics(), strict=True):
        assert stage.training_steps == line["training_steps"]
        assert stage.indicators["hypervolume"] == line["hypervolume"]
    assert_same(run.path, whole.path)


def test_a_stage_is_on_disk_when_it_is_told(tmp_path: Path) -> None:
    """What a function finds in the run's directory is the stage that it is told of."""

    def look(stage: StageRecord) -> None:
        run = ucb_moppo.load(tmp_path / "run")
        assert isinstance(run, ucb_moppo.Run)
        assert run.metrics()[-1]["stage"] == stage.stage
        np.testing.assert_array_equal(run.evaluated().returns, stage.returns.reshape(-1, 2))
        looked.append(run.policy([0.5, 0.5])(np.zeros(8)).shape)

    looked: list[tuple[int, ...]] = []
    train(tmp_path / "run", on_stage=look, steps=240)
    assert looked == [(2,)] * 3  # stages of two iterations: after 0, 2 and 3


@pytest.mark.parametrize(
    ("asking", "evaluations", "steps"),
    [
        ({"on_stage": lambda stage: stage.stage == 2}, [0, 1, 2], 4 * 80),
        ({"on_iteration": lambda iteration: iteration == 5}, [0, 1, 2, 3], 5 * 80),  # evaluated out of turn
        ({"on_stage": lambda stage: stage.stage == 0}, [0], 0),
    ],
)
def test_a_run_that_is_asked_to_stop_says_what_it_found_and_goes_on_as_if_it_never_had_been(
    tmp_path: Path, whole: ucb_moppo.Run, asking: dict[str, Any], evaluations: list[int], steps: int
) -> None:
    run = train(tmp_path / "run", held_out=2, **asking)
    assert (run.summary["stopped"], run.summary["finished"]) == ("callback", False)
    assert run.summary["training_steps"] == steps
    assert [line["stage"] for line in run.metrics()] == evaluations
    assert run.summary["held_out"]["episodes"] == 2  # its front is measured like that of a run which has finished
    assert "error_1" in run.table()
    assert (run.path / "front.png").exists()
    resumed = ucb_moppo.resume(run.path, quiet=True)
    assert resumed.summary["finished"] is True
    assert "stopped" not in resumed.summary
    for name in ("evaluations.csv", "policies.safetensors"):
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes()


@pytest.mark.parametrize("failing", [{"on_stage": fails_at(2)}, {"on_iteration": fails_at(5)}])
def test_an_error_of_a_function_is_raised_and_the_run_goes_on_where_it_stood(
    tmp_path: Path, whole: ucb_moppo.Run, failing: dict[str, Any]
) -> None:
    with pytest.raises(OwnError):
        train(tmp_path / "run", **failing)
    newest = "00000004-0003" if "on_stage" in failing else "00000005-0003"
    assert list_checkpoints(tmp_path / "run")[0] == newest
    run = ucb_moppo.load(tmp_path / "run")
    assert isinstance(run, ucb_moppo.Run)
    assert [line["stage"] for line in run.metrics()] == [0, 1, 2]
    told: list[int] = []
    resumed = ucb_moppo.resume(run.path, quiet=True, on_iteration=told.append)
    assert told == list(range(int(newest[:8]) + 1, 11))
    assert_same(resumed.path, whole.path)


def test_at_its_end_a_run_has_nothing_left_to_stop(tmp_path: Path) -> None:
    run = train(tmp_path / "run", on_iteration=lambda iteration: iteration == 10, on_stage=lambda s: s.stage == 5)
    assert run.summary["finished"] is True
    assert "stopped" not in run.summary


def test_an_error_at_the_very_end_leaves_a_run_that_is_finished(tmp_path: Path, whole: ucb_moppo.Run) -> None:
    with pytest.raises(OwnError):
        train(tmp_path / "run", on_stage=fails_at(5))
    assert_same(ucb_moppo.resume(tmp_path / "run", quiet=True).path, whole.path)


@pytest.mark.parametrize(
    ("answer", "stops"),
    [(True, True), (np.bool_(True), True), (False, False), (None, False), (12, False), ("yes", False)],
)
def test_only_true_asks_to_stop(answer: object, stops: bool) -> None:
    assert asks_to_stop(answer) is stops


def test_another_s_method_is_stopped_and_goes_on_too(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"batch": 10, "horizon": 4, "steps": 100, "evaluations": 4, "held_out": 0}
    run = ucb_moppo.train(
        "Swimmer-v2",
        method="stub_peer:ResumableStub",
        out=tmp_path / "run",
        quiet=True,
        on_stage=lambda stage: stage.stage == 2,
        **settings,
    )
    assert (run.summary["stopped"], run.summary["training_steps"]) == ("callback", 50)
    resumed = ucb_moppo.resume(run.path, quiet=True)
    assert (resumed.summary["finished"], [line["stage"] for line in resumed.metrics()]) == (True, [0, 1, 2, 3, 4])


NOT_YET = ("does not exist", "holds no run", "not reached its first evaluation")
"""What may be said of a run that has only just begun."""


def test_a_run_is_read_whole_while_another_thread_trains_it(tmp_path: Path) -> None:
    """Whenever it is looked at, every file is of the same stage; before the first an error says so."""
    done = threading.Event()

    def work() -> None:
        try:
            train(tmp_path / "run", steps=1600)  # 20 iterations: stages 0 to 10
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    seen: set[int] = set()
    while not done.is_set():
        try:
            run = ucb_moppo.load(tmp_path / "run")
            assert isinstance(run, ucb_moppo.Run)
            steps = run.summary["training_steps"]
        except RunFormatError as fault:
            assert any(words in str(fault) for words in NOT_YET)  # noqa: PT017
            continue
        assert run.metrics()[-1]["training_steps"] == steps
        stage = run.metrics()[-1]["stage"]
        rows = run.evaluations()
        last = rows["stage"] == stage
        np.testing.assert_array_equal(rows["return_1"][last], run.evaluated().returns[:, 0])
        assert run.policy([0.5, 0.5]).weight.tolist() == [0.5, 0.5]
        if stage not in seen:
            assert f"{steps:,} training steps" in run.plot_front().get_suptitle()
        seen.add(stage)
    thread.join()
    assert len(seen) > 1
    assert max(seen) <= 10


@pytest.mark.parametrize("name", ["on_stage", "on_iteration"])
@pytest.mark.parametrize("given", ["print", [print], 0])
def test_what_cannot_be_called_is_refused_before_anything_is_made(tmp_path: Path, name: str, given: Any) -> None:
    said = rf"{name} is {re.escape(repr(given))}, which cannot be called; give a function of one argument"
    with pytest.raises(ConfigError, match=said):
        train(tmp_path / "runs" / "run", **{name: given})
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_called_leaves_a_run_that_is_continued_as_it_was(whole: ucb_moppo.Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.path.rglob("*")}
    with pytest.raises(ConfigError, match="on_stage is True, which cannot be called"):
        ucb_moppo.resume(whole.path, quiet=True, on_stage=True)  # type: ignore[arg-type]
    assert {path: path.stat().st_mtime_ns for path in whole.path.rglob("*")} == before
