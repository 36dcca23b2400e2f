"""A policy whose numbers stop being finite is restored once, then set aside; the others do not notice."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tiny_runs import DiesAt, Killed, assert_same, train_tiny

import ucb_moppo
from ucb_moppo.algos.ppo.ppo import PPO
from ucb_moppo.algos.ppo.update import PolicyState
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.population import Population
from ucb_moppo.errors import DivergenceError, UcbMoppoWarning
from ucb_moppo.store.checkpoint import find_checkpoint
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run

FIXED: dict[str, Any] = {"method": "fixed"}  # weights that do not depend on what the others do


def poison_parameters(state: PolicyState, report: dict[str, Any], policy: int) -> tuple[PolicyState, dict]:
    log_std = state.params["actor"]["log_std"].at[policy, 0].set(jnp.inf)
    actor = state.params["actor"] | {"log_std": log_std}
    return state._replace(params=state.params | {"actor": actor}), report


def poison_loss(state: PolicyState, report: dict[str, Any], policy: int) -> tuple[PolicyState, dict]:
    return state, report | {"value_loss": report["value_loss"].at[policy].set(jnp.nan)}


@contextmanager
def poisoned(
    monkeypatch: pytest.MonkeyPatch,
    poison: Callable[..., Any],
    policies: tuple[int, ...],
    iterations: tuple[int, ...],
) -> Iterator[None]:
    """The updates of some iterations (counted from 0) leave something that is not finite in some policies."""
    train_on = Population.update

    def train(self: Population, rollout: Any, weights: Any) -> Any:
        clean = PPO.update

        def update(ppo: PPO, state: PolicyState, seen: Any, weight: Any) -> Any:
            result = clean(ppo, state, seen, weight)
            for policy in policies:
                result = poison(*result, policy)
            return result

        with monkeypatch.context() as once:
            once.setattr(PPO, "update", update if self.iteration in iterations else clean)
            return train_on(self, rollout, weights)

    with monkeypatch.context() as patch:
        patch.setattr(Population, "update", train)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    return train_tiny(tmp_path_factory.mktemp("whole") / "run", **FIXED)


def assert_policy_unchanged(run: ucb_moppo.Run, whole: ucb_moppo.Run, policy: int) -> None:
    """A policy has been trained alike in both; which of its states is kept hangs on the front of all."""
    trained, expected = (trained_states(made.path) for made in (run, whole))
    assert expected
    for name, array in expected.items():
        assert trained[name][policy].tobytes() == array[policy].tobytes(), name


def trained_states(path: Path) -> dict[str, np.ndarray]:
    """Arrays [K, …] of the policies as they stand at the end, from the last checkpoint."""
    checkpoint = find_checkpoint(path)
    assert checkpoint is not None
    return {name: a for name, a in checkpoint.tensors.items() if name.startswith("executor.shard0.policy")}


def kept_returns(run: ucb_moppo.Run, policy: int) -> np.ndarray:
    """[stages, P, m] what the run kept of a sub-space after every stage, from its table."""
    with (run.path / "evaluations.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["policy"] == str(policy)]
    stages = sorted({int(row["stage"]) for row in rows})
    found = [
        [[float(row[f"return_{j}"]) for j in (1, 2)] for row in rows if row["stage"] == str(s)] for s in stages
    ]
    return np.array(found)


@pytest.mark.parametrize(("poison", "cause"), [(poison_parameters, "parameters"), (poison_loss, "loss")])
def test_a_policy_is_restored_once(
    whole: ucb_moppo.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poison: Callable[..., Any], cause: str
) -> None:
    with (
        poisoned(monkeypatch, poison, (1,), (3,)),
        pytest.warns(UcbMoppoWarning, match=rf"policy 1 diverged in iteration 4: its {cause}.*it was restored"),
    ):
        run = train_tiny(tmp_path / "run", **FIXED)
    event = {"policy": 1, "iteration": 4, "cause": cause, "action": "restored"}
    assert run.summary["diverged"] == [event]
    assert [line["diverged"] for line in run.metrics()] == [[], [], [event], [event], [event], [event]]
    assert np.isfinite(run.evaluated().returns).all()
    assert all(np.isfinite(array).all() for array in run.tensors().values())
    assert_policy_unchanged(run, whole, 0)


def test_a_policy_that_diverges_again_is_set_aside(
    whole: ucb_moppo.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        poisoned(monkeypatch, poison_parameters, (1,), (3, 6)),
        pytest.warns(UcbMoppoWarning, match="policy 1 diverged in iteration 7.*it was set aside"),
    ):
        run = train_tiny(tmp_path / "run", **FIXED)
    assert [event["action"] for event in run.summary["diverged"]] == ["restored", "set aside"]
    # What it was when it was last evaluated whole, after iteration 6 (stage 3), is kept from then on.
    assert all(np.isfinite(array).all() for array in run.tensors().values())
    kept = kept_returns(run, policy=1)
    assert np.isfinite(kept).all()
    np.testing.assert_array_equal(kept[4:], [kept[3], kept[3]])
    everything = run.evaluated()
    np.testing.assert_array_equal(everything.returns[everything.policy == 1], kept[3])
    assert_policy_unchanged(run, whole, 0)
    # Strict JSON all the same: a number that is not finite is null.
    for line in (run.path / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(word))


def test_search_goes_on_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with poisoned(monkeypatch, poison_loss, (0,), (2, 4)), pytest.warns(UcbMoppoWarning):
        run = train_tiny(tmp_path / "run", method="ucb")
    kept = kept_returns(run, policy=0)  # set aside in iteration 5, after the evaluation of stage 2
    np.testing.assert_array_equal(kept[3:], [kept[2]] * 3)
    lines = run.metrics()
    last = lines[-1]
    assert last["hypervolume"] >= lines[2]["hypervolume"] >= 0
    assert last["surrogate"]["realised"][0][0][0] is None
    assert all(np.isfinite(last["surrogate"]["absolute_error"]))


def test_returns_that_are_not_finite_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluations = 0

    def poisoned_evaluate(*arguments: Any, **named: Any) -> Evaluation:
        nonlocal evaluations
        result = evaluate(*arguments, **named)
        evaluations += 1
        if evaluations == 3:
            result.episodes[1, 0, 0, 0] = np.inf
        return result

    from ucb_moppo.engine import shard

    evaluate = shard.evaluate
    monkeypatch.setattr(shard, "evaluate", poisoned_evaluate)
    with pytest.warns(UcbMoppoWarning, match=r"its returns.*restored"):
        run = train_tiny(tmp_path / "run", **FIXED)
    assert run.summary["diverged"] == [{"policy": 1, "iteration": 4, "cause": "returns", "action": "restored"}]
    assert np.isfinite(run.evaluated().returns).all()


def test_when_all_diverge_the_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        poisoned(monkeypatch, poison_loss, (0, 1), (2, 3)),
        pytest.raises(DivergenceError, match=r"every policy has diverged.*lower --learning-rate"),
    ):
        train_tiny(tmp_path / "run", **FIXED)


@pytest.mark.filterwarnings("ignore::ucb_moppo.errors.UcbMoppoWarning")
def test_a_chance_that_was_used_up_stays_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the two divergences and resumed, the run ends the same."""
    with poisoned(monkeypatch, poison_parameters, (1,), (3, 6)):
        whole = train_tiny(tmp_path / "whole", **FIXED)
        with pytest.raises(Killed):
            train_tiny(tmp_path / "run", DiesAt(6), **FIXED)
        resume_run(tmp_path / "run", Silent())
    assert_same(tmp_path / "run", whole.path)


def test_a_network_that_overflows_is_caught_by_itself(tmp_path: Path) -> None:
    """No injection: a learning rate that throws the parameters out of range."""
    settings = FIXED | {"learning_rate": 1e30, "max_grad_norm": 1e30}
    with pytest.raises(DivergenceError, match="every policy has diverged"):
        train_tiny(tmp_path / "run", **settings)
