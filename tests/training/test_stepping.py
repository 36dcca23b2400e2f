"""Training by hand, event by event: the same bits as ``train``, and a state that another trainer goes on from."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trade_runs import NUM_STAGES, PROBLEM, SETTINGS, train_trade

import ucb_moppo
from ucb_moppo.envs import measure_scales
from ucb_moppo.errors import ConfigError


def test_stepping_by_hand_finds_what_train_finds_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
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
    with ucb_moppo.make_trainer("minecart-v0", steps=50_000, executor="local") as trainer:
        assert trainer.config.objective_scales == measure_scales("minecart-v0") != (1.0, 1.0, 1.0)


def test_another_trainer_goes_on_from_a_state(tmp_path: Path) -> None:
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as first:
        assert len(list(takewhile(lambda event: event != ucb_moppo.Iteration(3), first.run()))) == 5
        state = first.get_state()
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as second:
        second.set_state(state)
        events = list(second.run())
    assert [event.iteration for event in events if isinstance(event, ucb_moppo.Iteration)] == [4, 5]
    last, whole = events[-1], train_trade(tmp_path / "run")
    assert isinstance(last, ucb_moppo.StageRecord)
    np.testing.assert_array_equal(last.returns.reshape(-1, 2), whole.evaluated().returns)


def test_settings_that_cannot_be_are_refused_before_anything_is_made() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'stepps'"):
        ucb_moppo.make_trainer(PROBLEM, stepps=3)


def assert_same_front(found: ucb_moppo.Front, other: ucb_moppo.Front) -> None:
    for column, same in zip(found, other, strict=True):
        np.testing.assert_array_equal(column, same)


def until(events: Iterator[Any], wanted: type, count: int = 1) -> Any:
    """The next event of a kind, or the ``count``-th of them."""
    return next(islice((event for event in events if isinstance(event, wanted)), count - 1, None))


def test_front_policy_and_figure_are_those_that_the_run_ends_with(tmp_path: Path) -> None:
    run = train_trade(tmp_path / "run")
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        for _ in trainer.run():
            pass
        assert isinstance(trainer.front(), ucb_moppo.Front)
        assert_same_front(trainer.front(), run.front())
        assert_same_front(trainer.evaluated(), run.evaluated())
        policy, same = trainer.policy([0.8, 0.2]), run.policy([0.8, 0.2])
        assert (policy.index, policy.spec, policy.network) == (same.index, same.spec, same.network)
        np.testing.assert_array_equal(policy.expected_returns, same.expected_returns)
        assert policy(np.array([0.3])) == same(np.array([0.3]))
        axes, drawn = (shown.plot_front().axes[0] for shown in (trainer, run))
        np.testing.assert_array_equal(axes.collections[-1].get_offsets(), drawn.collections[-1].get_offsets())
        assert axes.figure.get_suptitle() == drawn.figure.get_suptitle()
        told = {name: value for name, value in trainer.summary.items() if name != "seconds"}
        assert told == {name: value for name, value in run.summary.items() if name != "seconds"}


def test_what_was_found_stays_that_of_the_last_evaluation_while_training_goes_on() -> None:
    """Parameters are changed in place: a policy that was handed out, and a snapshot, must not be."""
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        events = trainer.run()
        first = until(events, ucb_moppo.StageRecord)
        policy, before = trainer.policy([1, 0]), trainer.snapshot()
        action, kernel = policy(np.array([0.3])), before.tensors["actor.head.kernel"].copy()
        assert next(events) == ucb_moppo.Iteration(1)
        np.testing.assert_array_equal(trainer.evaluated().returns, first.returns.reshape(-1, 2))
        last = until(events, ucb_moppo.StageRecord, NUM_STAGES)
        np.testing.assert_array_equal(trainer.evaluated().returns, last.returns.reshape(-1, 2))
        assert not np.array_equal(trainer.snapshot().tensors["actor.head.kernel"], kernel)
        np.testing.assert_array_equal(before.tensors["actor.head.kernel"], kernel)
        assert policy(np.array([0.3])) == action


def test_before_the_first_evaluation_there_is_nothing_to_be_had() -> None:
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        for ask in (trainer.front, trainer.plot_front, trainer.snapshot, partial(trainer.policy, [0.5, 0.5])):
            with pytest.raises(ConfigError, match=r"iterate over run\(\) until it yields a StageRecord"):
                ask()


def test_a_state_brings_no_front_until_it_is_evaluated() -> None:
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        until(trainer.run(), ucb_moppo.StageRecord, 2)
        trainer.set_state(trainer.get_state())
        with pytest.raises(ConfigError, match="evaluated nothing yet"):
            trainer.front()
        record = until(trainer.run(), ucb_moppo.StageRecord)
        np.testing.assert_array_equal(trainer.evaluated().returns, record.returns.reshape(-1, 2))


def test_who_evaluates_inside_a_stage_has_its_front() -> None:
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS | {"stage_iterations": 5}) as trainer:
        until(trainer.run(), ucb_moppo.Iteration, 2)
        record = trainer.evaluate_early()
        np.testing.assert_array_equal(trainer.evaluated().returns, record.returns.reshape(-1, 2))


def test_a_trainer_that_is_closed_trains_no_more_and_still_shows_what_it_found() -> None:
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        events = trainer.run()
        until(events, ucb_moppo.Iteration, 2)
        front, state = trainer.front(), trainer.get_state()
    trainer.close()  # again, which does nothing
    asked = (
        trainer.run,
        trainer.plan,
        trainer.get_state,
        trainer.evaluate_early,
        partial(trainer.set_state, state),
    )
    for ask in (partial(next, events), *asked):
        with pytest.raises(ConfigError, match=r"closed after iteration 2: make another with make_trainer"):
            ask()
    assert_same_front(trainer.front(), front)
    assert trainer.policy([0.5, 0.5])(np.array([0.3])).shape == (1,)
    assert trainer.plot_front().axes


def test_a_with_statement_closes_also_what_fails() -> None:
    with suppress(ZeroDivisionError), ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        next(trainer.run())
        raise ZeroDivisionError
    with pytest.raises(ConfigError, match="closed"):
        trainer.run()


def test_a_trainer_says_in_one_line_how_far_it_is() -> None:
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        until(trainer.run(), ucb_moppo.Iteration, 3)
        assert repr(trainer) == f"SteppedTrainer({PROBLEM!r}, method='ucb', seed=0: iteration 3 of 5, training)"
    assert repr(trainer).endswith("iteration 3 of 5, closed)")


def test_another_iteration_goes_on_where_the_last_was_left() -> None:
    with ucb_moppo.make_trainer(PROBLEM, **SETTINGS) as trainer:
        until(trainer.run(), ucb_moppo.Iteration, 2)
        assert [event.iteration for event in trainer.run() if isinstance(event, ucb_moppo.Iteration)] == [3, 4, 5]
        assert list(trainer.run()) == []


def test_what_it_returns_can_be_named_in_type_hints() -> None:
    assert typing.get_type_hints(ucb_moppo.make_trainer)["return"] is ucb_moppo.SteppedTrainer
