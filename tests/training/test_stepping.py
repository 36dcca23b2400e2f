"""Training by hand, event by event: the same bits as ``train``, and a state that another trainer goes on from."""

from __future__ import annotations

from contextlib import closing
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
from trade_runs import NUM_STAGES, PROBLEM, SETTINGS, train_trade

import ucb_moppo
from ucb_moppo.engine.trainer import Trainer
from ucb_moppo.envs import measure_scales
from ucb_moppo.errors import ConfigError


def test_stepping_by_hand_finds_what_train_finds_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(ucb_moppo.make_trainer(PROBLEM, **SETTINGS)) as trainer:
        assert trainer.plan().training_steps == 400
        events = trainer.run()
        assert isinstance(next(events), ucb_moppo.StageRecord)
        assert next(events) == ucb_moppo.Iteration(1)
        assert (trainer.iteration, trainer.num_evaluations, trainer.finished) == (1, 1, False)
        *_, last = events
        found = trainer.snapshot()
    assert isinstance(last, ucb_moppo.StageRecord)
    assert (last.stage, last.finished) == (NUM_STAGES, True)
    assert list(tmp_path.iterdir()) == []
    run = train_trade(tmp_path / "run")
    np.testing.assert_array_equal(last.returns.reshape(-1, 2), run.evaluated().returns)
    assert {name: array.tobytes() for name, array in found.tensors.items()} == {
        name: array.tobytes() for name, array in run.tensors().items()
    }


def test_a_trainer_has_the_scales_that_train_measures() -> None:
    with closing(ucb_moppo.make_trainer("minecart-v0", steps=50_000, executor="local")) as trainer:
        assert isinstance(trainer, Trainer)
        assert trainer.config.objective_scales == measure_scales("minecart-v0") != (1.0, 1.0, 1.0)


def test_another_trainer_goes_on_from_a_state(tmp_path: Path) -> None:
    with closing(ucb_moppo.make_trainer(PROBLEM, **SETTINGS)) as first:
        assert len(list(takewhile(lambda event: event != ucb_moppo.Iteration(3), first.run()))) == 5
        state = first.get_state()
    with closing(ucb_moppo.make_trainer(PROBLEM, **SETTINGS)) as second:
        second.set_state(state)
        events = list(second.run())
    assert [event.iteration for event in events if isinstance(event, ucb_moppo.Iteration)] == [4, 5]
    last, whole = events[-1], train_trade(tmp_path / "run")
    assert isinstance(last, ucb_moppo.StageRecord)
    np.testing.assert_array_equal(last.returns.reshape(-1, 2), whole.evaluated().returns)


def test_settings_that_cannot_be_are_refused_before_anything_is_made() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'stepps'"):
        ucb_moppo.make_trainer(PROBLEM, stepps=3)
