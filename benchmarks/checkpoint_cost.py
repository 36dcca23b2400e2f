"""What checkpoints cost: seconds to save one against the seconds of a stage, and the share of a run's time.

    python benchmarks/checkpoint_cost.py [--problems Swimmer-v2 ...] [--iterations 3] [--directory .]

A stage is its iterations and one evaluation, both measured here with the default settings of the problem. The
checkpoint is the real one: all state, hashed, synced to the disk of ``--directory`` and renamed.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import tyro
from rich.console import Console
from rich.table import Table

from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.engine.trainer import Trainer
from ucb_moppo.envs import PROBLEMS, make_spec
from ucb_moppo.runtime.executor import make_executor
from ucb_moppo.store.checkpoint import Checkpoint, write_checkpoint
from ucb_moppo.training.record import make_facts


class Cost(NamedTuple):
    """Medians in seconds, and the size of a checkpoint."""

    checkpoint: float
    stage: float
    bytes: int

    @property
    def share(self) -> float:
        """Of a run's time that goes into a checkpoint after every stage."""
        return self.checkpoint / (self.checkpoint + self.stage)


def median_seconds(call: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        start = perf_counter()
        call()
        taken.append(perf_counter() - start)
    return statistics.median(taken)


def measure_cost(problem: str, iterations: int = 3, directory: Path = Path(".")) -> Cost:
    """Train a few iterations of ``problem`` and save them a few times in ``directory``."""
    config = override(default_settings(problem), executor="local", shards=1)
    spec = make_spec(problem, config.horizon, config.reference_point)
    config = resolve(config, spec)
    executor = make_executor(config, spec)
    trainer = Trainer(config, spec, executor)
    weights = trainer.decomposition.candidates[None, :, : config.search.active]
    executor.train(weights)  # compiles
    iteration = median_seconds(lambda: executor.train(weights), iterations)
    evaluation = median_seconds(lambda: next(trainer.run()), 1)
    with tempfile.TemporaryDirectory(dir=directory) as name:

        def save() -> None:
            state = trainer.get_state()
            write_checkpoint(Path(name), Checkpoint("00000000-0001", state, make_facts(config, spec)))

        checkpoint = median_seconds(save, 5)
        size = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file())
    executor.close()
    return Cost(checkpoint, config.search.stage_iterations * iteration + evaluation, size)


@dataclass(frozen=True)
class Options:
    problems: tuple[str, ...] = tuple(PROBLEMS)
    """Problems to measure."""
    iterations: int = 3
    """Iterations to take the median of."""
    directory: Path = Path(".")
    """On the disk that runs are written to."""


def main(options: Options) -> None:
    table = Table("problem", "checkpoint", "size", "stage", "share")
    for problem in options.problems:
        cost = measure_cost(problem, options.iterations, options.directory)
        table.add_row(
            problem,
            f"{1000 * cost.checkpoint:.0f} ms",
            f"{cost.bytes / 2**20:.1f} MiB",
            f"{cost.stage:.1f} s",
            f"{cost.share:.2%}",
        )
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Options))
