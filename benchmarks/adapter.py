"""Native problems against the adapter, and what the adapter adds to the environments' own time.

    python benchmarks/adapter.py [--problems mo-hopper-v5 ...] [--samples 500] [--rounds 3]

Trains in one process, natively where there is a native batch and through the adapter, in turns, and compares
medians. "Outside" is the share of collecting a rollout that is not spent in the environments' own ``step`` and
``reset``: what the batch and the actors take. Nothing of it is an update.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table
from throughput import Stopwatch

from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import ADAPTER_PREFIX, MO_PROBLEMS, make_spec

PYTHON_ONLY = ("minecart-v0", "deep-sea-treasure-v0", "fruit-tree-v0")


class Training:
    """Iterations on one problem, timed."""

    def __init__(self, problem: str, samples: int) -> None:
        settings = override(default_settings(problem), samples=samples, executor="local", steps=10**7)
        self.config = resolve(settings, make_spec(problem))
        self.shard = Shard(self.config, range(self.config.num_policies))
        self.weights = self.shard._uniform_weights()
        self.own = [watch for env in self._environments() for watch in watch_environment(env)]
        self.seconds: list[float] = []
        self.outside: list[float] = []
        self.iterate()  # compiles
        self.seconds.clear()
        self.outside.clear()

    def _environments(self) -> tuple[Any, ...]:
        return getattr(self.shard._collector.env, "environments", ())

    def iterate(self) -> None:
        """One iteration: its seconds, and the share of its collection outside the environments."""
        own, collecting = sum(watch.seconds for watch in self.own), self.shard.clock["acting_and_physics"]
        start = perf_counter()
        self.shard.train(self.weights, 1)
        self.seconds.append(perf_counter() - start)
        spent = self.shard.clock["acting_and_physics"] - collecting
        self.outside.append(1 - (sum(watch.seconds for watch in self.own) - own) / spent)

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.config.steps_per_iteration / statistics.median(self.seconds)


def watch_environment(env: Any) -> tuple[Stopwatch, Stopwatch]:
    """Time what an environment itself does."""
    innermost = env.unwrapped
    innermost.step, innermost.reset = Stopwatch(innermost.step), Stopwatch(innermost.reset)
    return innermost.step, innermost.reset


@dataclass(frozen=True)
class Options:
    """Compare the native batch with the adapter."""

    problems: tuple[str, ...] = (*MO_PROBLEMS, *PYTHON_ONLY)
    """Which problems."""
    samples: int = 500
    """Samples per policy and iteration."""
    rounds: int = 3
    """Iterations measured of each."""


def main() -> None:
    options = tyro.cli(Options)
    table = Table("problem", "native", "adapter", "native / adapter", "outside", title="steps per second")
    for problem in options.problems:
        adapted = Training(ADAPTER_PREFIX + problem, options.samples)
        native = Training(problem, options.samples) if problem in MO_PROBLEMS else None
        for _ in range(options.rounds):
            adapted.iterate()
            if native is not None:
                native.iterate()
        row = ["", f"{adapted.rate:,.0f}", ""]
        if native is not None:
            row = [f"{native.rate:,.0f}", row[1], f"{native.rate / adapted.rate:.1f}"]
        row.append(f"{statistics.median(adapted.outside):.0%}")
        table.add_row(problem, *row)
        print(problem, *row, flush=True)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
