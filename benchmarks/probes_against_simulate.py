"""Do interpolated probes select as well as simulating every candidate, at a tenth of the cost?

    python benchmarks/probes_against_simulate.py [--problem Swimmer-v2] [--steps 1000000]

A run trains on what the probes select. At every boundary all candidates are simulated too, and the selection that
those values would have made is compared with the one made: the hypervolume that each set of weights promises,
computed with the simulated values for both, and the error of the interpolation. Policies are apart from the start,
so that each chooses among the candidates of its own sub-space.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.engine.learner import StageRecord
from ucb_moppo.engine.trainer import Trainer
from ucb_moppo.envs import make_spec
from ucb_moppo.objectives.pareto import hypervolume
from ucb_moppo.runtime.executor import make_executor
from ucb_moppo.search.methods import SearchContext, Selection
from ucb_moppo.search.surrogate import interpolate_values


class ComparingTrainer(Trainer):
    """Simulates all candidates at every boundary beside the probes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.simulated: list[NDArray] = []
        self.simulated_steps = 0
        self.comparisons: list[dict[str, float]] = []
        self.method = replace(self.method, choose=self._choose_both(self.method.choose))

    def _evaluate(self, *args: Any) -> StageRecord:
        evaluation = self.executor.evaluate(self.decomposition.candidates, self.config.episodes)
        self.simulated.append(evaluation.returns)
        self.simulated_steps += evaluation.steps
        return super()._evaluate(*args)

    def _choose_both(self, choose: Any) -> Any:
        def both(context: SearchContext) -> Selection:
            chosen = choose(context)
            values, density = np.stack(self.simulated), self._density_at_candidates(context)
            simulated = {"evaluated_weights": context.candidates, "values": values, "density": density}
            other = choose(replace(context, **simulated))
            self.comparisons.append(self._compare(chosen, other))
            return chosen

        return both

    def _density_at_candidates(self, context: SearchContext) -> NDArray:
        """[Z − 1, K, M] how densely stages trained near the candidates, from what is known at the probes."""
        stages, policies, candidates = len(context.density), *context.candidates.shape[:2]
        found = np.empty((stages, policies, candidates))
        for z, k in np.ndindex(stages, policies):
            known = context.density[z, k][:, None]
            found[z, k] = interpolate_values(context.evaluated_weights[k], known, context.candidates[k])[:, 0]
        return found

    def _compare(self, chosen: Selection, other: Selection) -> dict[str, float]:
        now, candidates = self.simulated[-1], self.decomposition.candidates
        error = [
            np.abs(interpolate_values(w, v, c) - truth)
            for w, v, c, truth in zip(self.decomposition.probes, self.history[-1], candidates, now, strict=True)
        ]
        spread = np.ptp(now.reshape(-1, now.shape[-1]), axis=0)
        return {
            "interpolation_error": float((np.mean(error, axis=(0, 1)) / spread).mean()),
            "probes": self._promised(chosen),
            "simulate": self._promised(other),
            "distance": float(np.abs(np.sort(chosen.weights, 1) - np.sort(other.weights, 1)).mean()),
        }

    def _promised(self, selection: Selection) -> float:
        """Hypervolume of the selected weights' simulated values, all policies together."""
        points = []
        for weights, candidates, values in zip(
            selection.weights, self.decomposition.candidates, self.simulated[-1], strict=True
        ):
            rows = np.abs(candidates[None] - weights[:, None]).sum(-1).argmin(1)
            points.append(values[rows])
        return hypervolume(np.concatenate(points), self.config.reference_point)


@dataclass(frozen=True)
class Options:
    """Compare what probes select with what simulating every candidate would."""

    problem: str = "Swimmer-v2"
    """Problem to train on."""
    steps: int = 1_000_000
    """Training steps."""
    seed: int = 0
    """Seed of the run."""


def main() -> None:
    options = tyro.cli(Options)
    static = {"layout": "static", "policies": 10, "active": 10, "samples": 2500, "probes": 10, "episodes": 1}
    chosen = static | {"steps": options.steps, "seed": options.seed, "shards": 1}
    config = override(default_settings(options.problem), **chosen)
    spec = make_spec(config.problem)
    config = resolve(config, spec)
    trainer = ComparingTrainer(config, spec, make_executor(config, spec))
    for record in (event for event in trainer.run() if isinstance(event, StageRecord)):
        print(f"stage {record.stage}: HV {record.indicators['hypervolume']:.4g}", flush=True)
    columns = (
        "stage",
        "HV of probes' choice",
        "HV of simulate's choice",
        "ratio",
        "distance",
        "interpolation error",
    )
    table = Table(*columns, title=f"{config.problem}, seed {config.seed}, {config.steps:,} steps")
    for stage, row in enumerate(trainer.comparisons, 1):
        ratio = row["probes"] / row["simulate"]
        cells = (f"{row['probes']:.4g}", f"{row['simulate']:.4g}", f"{ratio:.3f}", f"{row['distance']:.4f}")
        table.add_row(str(stage), *cells, f"{row['interpolation_error']:.1%} of the range")
    Console().print(table)
    print(f"evaluation steps: probes {trainer.evaluation_steps:,}, simulate {trainer.simulated_steps:,}")


if __name__ == "__main__":
    main()
