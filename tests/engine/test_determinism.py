"""The same seed on the same machine gives the same bits, in this process and in another; other seeds do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from compiled_kernels import compiling_anew
from threadpoolctl import threadpool_limits
from trade_runs import PROBLEM, train_trade

from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import make_spec

NATIVE = "Swimmer-v2"
HERE = Path(__file__).parents[1] / "support"
FILES = ("config.json", "front.csv", "evaluations.csv", "policies.safetensors", "policies.json")

# The native problem also shows that threads share the work without changing it: one here, two there.
SCRIPT = f"""
import sys
from contextlib import closing
from pathlib import Path
from trade_runs import train_trade
out = Path(sys.argv[1])
train_trade(out / "adapter", {PROBLEM!r}, seed=3)
train_trade(out / "native", {NATIVE!r}, seed=3, horizon=12, threads=2)
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with seed 3 that another process made."""
    path = tmp_path_factory.mktemp("elsewhere")
    with compiling_anew():
        environment = os.environ | {"PYTHONPATH": str(HERE)}
        subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True, env=environment)
    return path


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs made in this process."""
    path = tmp_path_factory.mktemp("here")
    train_trade(path / "adapter", PROBLEM, seed=3)
    train_trade(path / "native", NATIVE, seed=3, horizon=12, threads=1)
    return path


def metrics_but_time(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.endswith("seconds")} for line in lines]


@pytest.mark.parametrize("kind", ["adapter", "native"])
def test_same_seed_same_bits(here: Path, elsewhere: Path, kind: str) -> None:
    for name in FILES:
        ours, theirs = ((path / kind / name).read_bytes() for path in (here, elsewhere))
        if name == "config.json":
            theirs = theirs.replace(b'"threads": 2', b'"threads": 1')
        assert ours == theirs, name
    assert metrics_but_time(here / kind) == metrics_but_time(elsewhere / kind)
    summaries = [json.loads((path / kind / "summary.json").read_text()) for path in (here, elsewhere)]
    for summary in summaries:
        del summary["seconds"]
    assert summaries[0] == summaries[1]


def test_different_seeds_differ(here: Path, tmp_path: Path) -> None:
    other = train_trade(tmp_path / "run", PROBLEM, seed=4).path
    for name in ("front.csv", "evaluations.csv", "policies.safetensors"):
        assert (other / name).read_bytes() != (here / "adapter" / name).read_bytes(), name
    assert metrics_but_time(other) != metrics_but_time(here / "adapter")


@pytest.mark.parametrize("method", ["random", "mean"])
def test_methods_part_after_the_warm_up(here: Path, tmp_path: Path, method: str) -> None:
    """Until the first choice of weights a method does not matter, so the first two lines are the same bits."""
    other = metrics_but_time(train_trade(tmp_path / "run", PROBLEM, seed=3, method=method).path)
    ours = metrics_but_time(here / "adapter")
    assert other[:2] == ours[:2]
    assert other[2:] != ours[2:]


@pytest.mark.parametrize("threads", [2, 3])
def test_the_bits_do_not_depend_on_the_threads_of_blas(threads: int) -> None:
    """348 numbers of 100 humanoids make products that BLAS divides among its threads, and then rounds otherwise."""
    problem = "mo-humanoid-v5"
    small = {"rollout": 12, "horizon": 20, "executor": "local", "shards": 1, "epochs": 1, "steps": 10**6}
    config = resolve(override(default_settings(problem), **small), make_spec(problem))

    def found(num_threads: int) -> list[np.ndarray]:
        with threadpool_limits(num_threads, user_api="blas"), closing(Shard(config, range(4))) as shard:
            weights = np.full((4, config.search.active, 2), 0.5)
            rollout = shard._collect(shard.own.actors, weights, shard.own.draw_noise())
            return [*rollout[:6], shard.evaluate(np.full((4, 25, 2), 0.5), episodes=1).returns]

    for alone, together in zip(found(1), found(threads), strict=True):
        np.testing.assert_array_equal(alone, together)
