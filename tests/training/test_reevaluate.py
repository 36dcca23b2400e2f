"""The front of a finished run: measured by starts that nothing was chosen by, and found again by `evaluate`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_runs import SampleRun, rewrite
from tiny_runs import DiesAt, Killed, tiny_settings, train_tiny

import ucb_moppo
from ucb_moppo.cli import main as cli
from ucb_moppo.config import override
from ucb_moppo.engine.evaluation import evaluate
from ucb_moppo.envs import make_batch
from ucb_moppo.objectives.pareto import hypervolume, nondominated
from ucb_moppo.objectives.weights import make_decomposition
from ucb_moppo.policy.actors import actors_from_tensors
from ucb_moppo.report.load import load_data
from ucb_moppo.seeding import HELD_OUT
from ucb_moppo.store.front import measured_rows, measured_values
from ucb_moppo.store.writer import Reported, front_csv
from ucb_moppo.training.reevaluate import evaluate_run
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run
from ucb_moppo.training.train import train_run
from ucb_moppo.viewer.choice import choose

HORIZON, EPISODES = 20, 3
# Ten iterations in stages of two, one policy for both sub-spaces until the sixth.
PARTING = {"layout": "parting", "together": 6}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    return train_tiny(tmp_path_factory.mktemp("held-out") / "run", held_out=EPISODES, **PARTING)


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def numbers(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([[float(row[f"{name}_{j}"]) for j in (1, 2)] for row in rows])


def test_front_is_chosen_by_what_stages_saw_and_shows_what_others_measured(run: ucb_moppo.Run) -> None:
    rows, seen = table(run.path / "front.csv"), table(run.path / "evaluations.csv")
    chosen_by = numbers(rows, "selection")
    np.testing.assert_array_equal(chosen_by, numbers([row for row in seen if row["stage"] == "5"], "return"))
    members = np.array([row["on_front"] == "true" for row in rows])
    np.testing.assert_array_equal(members, nondominated(chosen_by))
    # By hand: each member alone, three episodes from held-out starts.
    spec = run.spec
    tensors, returns = run.tensors(), numbers(rows, "return")
    for row, member in zip(rows, members, strict=True):
        if not member:
            assert (row["error_1"], row["error_2"]) == ("nan", "nan")
            continue
        k, weight = int(row["policy"]), np.array([[[float(row["weight_1"]), float(row["weight_2"])]]])
        env = make_batch("Swimmer-v2", EPISODES, 1, HORIZON, spec.reference_point)
        acting = actors_from_tensors({name: array[k : k + 1] for name, array in tensors.items()}, run.network)
        alone = evaluate(acting, weight, env, EPISODES, starts=HELD_OUT)
        env.close()
        np.testing.assert_allclose(numbers([row], "return")[0], alone.returns[0, 0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(numbers([row], "error")[0], alone.errors[0, 0], rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(returns[~members], chosen_by[~members])
    assert not np.array_equal(returns[members], chosen_by[members])
    np.testing.assert_array_equal(run.front().returns, returns[members])


def test_a_preference_gets_the_member_that_held_out_episodes_speak_for(run: ucb_moppo.Run) -> None:
    """Not the pair that a few episodes of a stage have flattered; and the page picks the same as ``policy``."""
    front, data = run.front(), load_data(run.path)
    for first in np.linspace(0, 1, 11):
        preference = np.array([first, 1 - first])
        found = run.policy(preference, "evaluated")
        assert found.expected_returns @ preference == pytest.approx((front.returns @ preference).max(), abs=1e-12)
        assert choose(data, preference).weight.tolist() == found.weight.tolist()


def test_before_anything_is_measured_a_preference_goes_by_what_stages_saw() -> None:
    nothing = {"policy": np.zeros(2), "error_1": np.full(2, np.nan), "error_2": np.full(2, np.nan)}
    assert measured_rows(nothing).all()
    assert measured_rows({"policy": np.zeros(2)}).all()
    returns = np.array([[1.0, 0.0], [3.0, 0.0]])
    found = measured_values(returns, np.array([True, False]), np.array([0.5, 0.5]))
    assert found.tolist() == [0.5, -np.inf]


def test_summary_is_of_the_held_out_values(run: ucb_moppo.Run) -> None:
    summary, last = run.summary, run.metrics()[-1]
    measured = summary["held_out"]
    front = run.front().returns
    assert summary["hypervolume"] == pytest.approx(hypervolume(front, run.spec.reference_point))
    assert measured["episodes"] == EPISODES
    assert measured["steps"] == len(front) * EPISODES * HORIZON  # a Swimmer never falls
    assert measured["selection"] == {name: last[name] for name in measured["selection"]}
    assert measured["selection"].keys() >= {"hypervolume", "expected_utility", "sparsity", "cardinality"}
    for name in ("hypervolume", "expected_utility"):
        low, high = measured["intervals"][name]
        assert low <= summary[name] <= high
    # What the curve counts is what stages took: 6 evaluations of 2 sub-spaces × 2 probes × 20 steps.
    assert summary["evaluation_steps"] == last["evaluation_steps"] == 6 * 2 * 2 * HORIZON


@pytest.mark.parametrize(
    "settings",
    [
        PARTING,
        {"layout": "static"},
        {"layout": "parting", "together": 10, "shards": 2, "executor": "local"},
        {"layout": "static", "candidate_values": "simulate", "method": "mean"},
        {"layout": "static", "replicas": 2, "steps": 1600, "episodes": 2, "held_out": 0},
    ],
)
def test_evaluate_without_options_gives_the_run_s_own_front(tmp_path: Path, settings: dict[str, Any]) -> None:
    made = train_tiny(tmp_path / "run", **({"held_out": EPISODES} | settings))
    found = evaluate_run(made.path, None, out=tmp_path / "front.csv")
    assert (tmp_path / "front.csv").read_bytes() == (made.path / "front.csv").read_bytes()
    for name in ("hypervolume", "expected_utility", "sparsity", "cardinality"):
        assert found[name] == made.summary[name], name


def test_the_command_gives_it_too_and_changes_nothing(run: ucb_moppo.Run, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    cli.main(["evaluate", str(run.path), "--out", str(tmp_path / "front.csv")])
    assert (tmp_path / "front.csv").read_bytes() == (run.path / "front.csv").read_bytes()
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_more_held_out_episodes_begin_with_the_same(run: ucb_moppo.Run, tmp_path: Path) -> None:
    """Members and what they were chosen by stay; errors of nine episodes are about √3 smaller than of three."""
    evaluate_run(run.path, None, held_out=9, out=tmp_path / "front.csv")
    rows, before = table(tmp_path / "front.csv"), table(run.path / "front.csv")
    for name in ("selection", "weight"):
        np.testing.assert_array_equal(numbers(rows, name), numbers(before, name))
    assert [row["on_front"] for row in rows] == [row["on_front"] for row in before]
    members = [row for row in rows if row["on_front"] == "true"]
    assert np.isfinite(numbers(members, "error")).all()


def test_a_run_without_held_out_episodes_reports_what_it_chose_by(tmp_path: Path) -> None:
    made = train_tiny(tmp_path / "run")
    assert "held_out" not in made.summary
    assert made.summary["hypervolume"] == made.metrics()[-1]["hypervolume"]
    assert table(made.path / "front.csv")[0].keys() == {
        *("policy", "weight_1", "weight_2", "return_1", "return_2", "on_front")
    }


def test_a_resumed_run_reports_the_same(run: ucb_moppo.Run, tmp_path: Path) -> None:
    """Killed in its last stage; before it ended nothing was held out."""
    chosen = override(tiny_settings(**PARTING), held_out=EPISODES)
    with pytest.raises(Killed):
        train_run(chosen, tmp_path / "run", DiesAt(9))
    assert "error_1" not in table(tmp_path / "run" / "front.csv")[0]
    resume_run(tmp_path / "run", Silent())
    assert (tmp_path / "run" / "front.csv").read_bytes() == (run.path / "front.csv").read_bytes()


def test_a_front_is_chosen_from_as_many_weights_as_are_left_to_pay_for(tmp_path: Path) -> None:
    """5 iterations of 2 × 400 steps in one stage: 2 evaluations of 2 sub-spaces × 1 probe × 20 steps are 80.

    A quarter of 4,000 leaves 920, a weight of each sub-space takes 40, and 0.95 · 2/3 · 920 / 40 = 14.57. The 28
    take 560 of them, and 0.95 · 360 / 20 = 17.1 episodes are left for a second look.
    """
    cheap = {
        "samples": 400,
        "minibatch": 200,
        "steps": 4000,
        "stage_iterations": 5,
        "warmup": 5,
        "probes": 1,
        "held_out": 2,
    }
    made = train_tiny(tmp_path / "run", **cheap)
    everything = made.evaluated()
    expected = make_decomposition(2, 2, 8, 14).probes
    np.testing.assert_array_equal(everything.weights, expected.reshape(28, 2))
    told = made.summary["held_out"]
    assert told["spare_episodes"] == 17
    looked = made.summary["evaluation_steps"] - 80 - 28 * HORIZON
    assert told["second_look_episodes"] == looked == 0  # more than 8 are on the front, and 17 are for two looks
    assert made.metrics()[-1]["evaluation_steps"] == 80
    assert len([row for row in table(made.path / "evaluations.csv") if row["stage"] == "1"]) == 2
    evaluate_run(made.path, None, out=tmp_path / "front.csv")
    assert (tmp_path / "front.csv").read_bytes() == (made.path / "front.csv").read_bytes()


def test_a_policy_is_taken_from_the_front(tmp_path: Path) -> None:
    """(9.5, 0.9) was dominated by (10, 1), which held-out starts show to be (9, 1): the two were measured apart.

    What was not measured again keeps its luck, and must not win by it.
    """
    selection = np.array([[[10.0, 1.0], [9.5, 0.9]], [[1.0, 10.0], [0.9, 9.5]]])
    path = SampleRun.showing(selection, selection).write(tmp_path / "run")
    weights = ucb_moppo.load(path).evaluated().weights.reshape(2, 2, 2)
    members = np.array([[True, False], [True, False]])
    reported = Reported(members, np.array([[9.0, 1.0], [1.0, 9.0]]), np.full((2, 2), 0.5))
    rewrite(path, "front.csv", front_csv(weights, selection, reported))
    made = ucb_moppo.load(path)
    np.testing.assert_array_equal(made.front().returns, [[9.0, 1.0], [1.0, 9.0]])
    np.testing.assert_array_equal(made.policy([1.0, 0.0]).expected_returns, [9.0, 1.0])
    np.testing.assert_array_equal(made.policy([0.0, 1.0]).expected_returns, [1.0, 9.0])
