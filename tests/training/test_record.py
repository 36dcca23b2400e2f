"""The loop over a learner's events: what is written, saved and told, and where a run stops."""

from __future__ import annotations

import signal
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_runs import random_tensors
from tiny_runs import tiny_settings

from ucb_moppo.config import resolve
from ucb_moppo.engine.learner import Diverged, Event, Iteration, Plan, Snapshot, StageRecord
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import Interrupted, UcbMoppoWarning
from ucb_moppo.policy.networks import PAPER_NETWORK
from ucb_moppo.store.checkpoint import find_checkpoint, list_checkpoints
from ucb_moppo.store.run import Run
from ucb_moppo.training.record import Recorder, record_run
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.stop import Deadline, StopRequest

SPEC = make_spec("Swimmer-v2", 20)
CONFIG = resolve(tiny_settings(checkpoint_seconds=1000.0, checkpoint_stages=100), SPEC)
INDICATORS = {"hypervolume": 1.0, "expected_utility": 2.0, "sparsity": 3.0, "cardinality": 4}


class ScriptedLearner:
    """Yields the events it is given; ``before`` is called with each of them while it is still to come."""

    network, resumable = PAPER_NETWORK, True

    def __init__(self, events: list[Event], before: Any = lambda event: None) -> None:
        self.events, self.before = events, before
        self.iteration = self.num_evaluations = 0
        self.finished = self.left = False
        self.weights = np.full((2, 2, 2), 0.5)

    def plan(self) -> Plan:
        return Plan(10, 5, 800)

    def run(self) -> Generator[Event, None, None]:
        try:
            for event in self.events:
                self.before(event)
                if isinstance(event, StageRecord):
                    self.num_evaluations, self.finished = self.num_evaluations + 1, event.finished
                elif isinstance(event, Iteration):
                    self.iteration = event.iteration
                yield event
        finally:
            self.left = True

    def evaluate_early(self) -> StageRecord:
        return stage(99, self.iteration)

    def snapshot(self) -> Snapshot:
        return Snapshot(random_tensors(SPEC, 2), PAPER_NETWORK, self.weights, 7)

    def get_state(self) -> dict[str, np.ndarray]:
        return {"iteration": np.array(self.iteration)}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None: ...

    def close(self) -> None: ...


def stage(number: int, iteration: int, finished: bool = False) -> StageRecord:
    returns = np.full((2, 2, 2), float(number))
    return StageRecord(number, iteration, iteration * 80, 40, 1.0, returns, INDICATORS, finished=finished)


WHOLE: list[Event] = [stage(0, 0), Iteration(5), stage(1, 5), Iteration(10), stage(2, 10, finished=True)]


class Listener(Silent):
    def __init__(self) -> None:
        self.told: list[Any] = []

    def iteration(self, iteration: int) -> None:
        self.told.append(iteration)

    def stage(self, record: StageRecord) -> None:
        self.told.append(f"stage {record.stage}")


def record(path: Path, learner: ScriptedLearner, stop: StopRequest | None = None) -> Listener:
    path.mkdir(exist_ok=True)
    listener = Listener()
    recorder = Recorder(path, CONFIG, SPEC, learner)
    record_run(learner, recorder, listener, stop or StopRequest(), Deadline(None))
    return listener


def test_every_stage_is_written_and_told_and_the_end_is_saved(tmp_path: Path) -> None:
    listener = record(tmp_path, ScriptedLearner(WHOLE))
    assert listener.told == ["stage 0", 5, "stage 1", 10, "stage 2"]
    run = Run(tmp_path)
    assert [line["stage"] for line in run.metrics()] == [0, 1, 2]
    assert run.summary["finished"] is True
    assert run.summary["parameters"] == 7
    assert list_checkpoints(tmp_path) == ["00000010-0003", "00000000-0000"]  # the beginning, and the end


def test_a_signal_saves_where_the_run_stands_and_leaves_the_learner(tmp_path: Path) -> None:
    stop = StopRequest()

    def ask(event: Event) -> None:
        stop.signal = signal.SIGTERM if event == Iteration(10) else None

    learner = ScriptedLearner(WHOLE, ask)
    with pytest.raises(Interrupted, match="stopped after iteration 10; continue with") as stopped:
        record(tmp_path, learner, stop)
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert learner.left
    checkpoint = find_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.name == "00000010-0002"
    assert [line["stage"] for line in Run(tmp_path).metrics()] == [0, 1]


def test_a_signal_after_the_last_stage_changes_nothing(tmp_path: Path) -> None:
    stop = StopRequest()
    learner = ScriptedLearner(WHOLE, lambda event: setattr(stop, "signal", 15 if event is WHOLE[-1] else None))
    record(tmp_path, learner, stop)
    assert Run(tmp_path).summary["finished"] is True


def test_time_that_is_up_saves_first_then_evaluates_outside_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "passed", property(lambda self: True))
    learner = ScriptedLearner(WHOLE)
    listener = record(tmp_path, learner)
    assert listener.told == ["stage 0", 5, "stage 99"]
    assert learner.left
    run = Run(tmp_path)
    assert (run.summary["stopped"], run.summary["finished"]) == ("max_seconds", False)
    checkpoint = find_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.name == "00000005-0001"
    # What it continues from knows nothing of stage 99.
    assert checkpoint.lengths()["metrics.jsonl"].bytes < (tmp_path / "metrics.jsonl").stat().st_size


def test_time_that_is_up_after_the_last_iteration_does_not_cut_its_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = ScriptedLearner([stage(0, 0), Iteration(10), stage(1, 10, finished=True)])
    monkeypatch.setattr(Deadline, "passed", property(lambda self: last.iteration == 10))
    record(tmp_path, last)
    assert Run(tmp_path).summary["finished"] is True


def test_a_divergence_is_a_warning_even_where_the_run_is_asked_to_stop(tmp_path: Path) -> None:
    stop = StopRequest()
    stop.signal = signal.SIGINT
    learner = ScriptedLearner([Diverged(1, 3, "loss", "restored"), stage(0, 0)])
    with (
        pytest.warns(UcbMoppoWarning, match="policy 1 diverged in iteration 3: its loss were not finite"),
        pytest.raises(Interrupted),
    ):
        record(tmp_path, learner, stop)


def test_a_learner_without_a_state_leaves_no_checkpoints(tmp_path: Path) -> None:
    learner = ScriptedLearner(WHOLE)
    learner.resumable = False  # type: ignore[misc]
    record(tmp_path, learner)
    assert list_checkpoints(tmp_path) == []
