"""Nine objectives: the whole method on a front that is known, and weights that do not explode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ucb_moppo
from ucb_moppo.bench.provenance import Provenance
from ucb_moppo.bench.result import make_result, read_result, write_result
from ucb_moppo.cli.display import summary_lines
from ucb_moppo.config import default_settings, resolve
from ucb_moppo.engine.probes import make_run_decomposition
from ucb_moppo.objectives.pareto import measure_volume
from ucb_moppo.objectives.weights import even_weights, nearest_pivot
from ucb_moppo.report.cells import number_with_error
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.method_tables import comparison_table
from ucb_moppo.report.run_tables import summary_table
from ucb_moppo.report.sections import make_sections
from ucb_moppo.spec import ActionSpec, EnvSpec

HORIZON = 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    return ucb_moppo.train(
        "probe_envs:probe/NineBall-v0",
        reference_point=(-1.0,) * 9,
        steps=60_000,
        probes=6,
        episodes=1,
        held_out=2,
        learning_rate=3e-3,
        log_std=-1.0,
        gamma=0.9,
        out=tmp_path_factory.mktemp("nine") / "run",
        quiet=True,
    )


def test_ucb_recovers_a_sphere_of_nine_objectives(run: ucb_moppo.Run) -> None:
    """max w·r over |r| <= 1 is |w|: an expected utility of T times the mean of |w| (see test_known_front)."""
    best = HORIZON * np.linalg.norm(even_weights(9), axis=1).mean()
    assert 0.95 * best <= run.summary["expected_utility"] <= best
    assert (np.linalg.norm(run.evaluated().returns, axis=1) <= HORIZON * (1 + 1e-9)).all()
    assert run.config["search"]["acquisition"] == "expected_utility"


def test_the_hypervolume_is_an_estimate_and_says_so(run: ucb_moppo.Run, tmp_path: Path) -> None:
    found, front = run.summary, run.front()
    volume = measure_volume(front.returns, -np.ones(9))
    assert (found["hypervolume"], found["hypervolume_error"]) == volume
    assert 0 < volume.error < 0.02 * volume.value
    assert run.metrics()[-1]["hypervolume_error"] > 0
    assert f"HV ≈ {volume.value:.4g} ± {volume.error:.1g}" in summary_lines(run)[1]
    data = load_data(run.path)
    rows = dict(summary_table(data).rows)
    assert rows["HV"] == number_with_error(*volume)
    assert rows["HV"].startswith("≈ ")
    assert "1 of 1 runs is an estimate" in comparison_table(make_sections([data])[0]).note
    write_result(tmp_path / "result.json", make_result(run, Provenance("abc", {})))
    assert read_result(tmp_path / "result.json")["found"]["hypervolume_error"] == volume.error
    assert load_all([tmp_path / "result.json"])[0].summary["hypervolume_error"] == volume.error


@pytest.mark.parametrize("num_objectives", [4, 6, 9])
def test_decompositions_of_many_objectives_stay_small(num_objectives: int) -> None:
    """2m policies of 117 candidates and 8 probes at most, each in its own sub-space, the corners among them."""
    names = tuple(f"objective {j}" for j in range(num_objectives))
    spec = EnvSpec("fake", names, 3, ActionSpec(False, 1, (-1.0,), (1.0,)), 100, (0.0,) * num_objectives)
    config = resolve(default_settings("fake"), spec)
    assert config.search.policies == 2 * num_objectives
    assert config.search.active * config.search.policies <= 100
    parts = make_run_decomposition(config, spec)
    assert parts.candidates.shape == (2 * num_objectives, 117, num_objectives)
    for k, candidates in enumerate(parts.candidates):
        assert (nearest_pivot(candidates, parts.pivots) == k).all()
        assert len(np.unique(candidates, axis=0)) == 117
    flat = parts.candidates.reshape(-1, num_objectives)
    assert (flat.max(axis=0) == 1).all()
    assert len(even_weights(num_objectives)) <= 252  # of the expected utility: C(10, 5) at most
