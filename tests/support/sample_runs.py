"""Small runs written by hand, whose every number a test can derive: no training, no waiting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.engine.probes import make_run_decomposition
from ucb_moppo.envs import make_spec
from ucb_moppo.objectives.pareto import cardinality, expected_utility, hypervolume, sparsity
from ucb_moppo.objectives.weights import even_weights
from ucb_moppo.policy.networks import ACTOR_GAIN, init_mlp
from ucb_moppo.spec import ActionSpec, EnvSpec
from ucb_moppo.store.layout import MANIFEST, METRICS, SUMMARY
from ucb_moppo.store.storage import make_digest
from ucb_moppo.store.writer import RunWriter

CELLS, STEPS_PER_STAGE = 4, 3000


def sample_spec(num_objectives: int) -> EnvSpec:
    """A problem of any number of objectives that exists only on paper."""
    names = ("speed", "energy", "height", "comfort", "price", "noise", "wear", "safety", "beauty")[:num_objectives]
    action = ActionSpec(False, 2, (-1.0, -1.0), (1.0, 1.0))
    return EnvSpec("paper-problem", names, 3, action, 100, (0.0,) * num_objectives)


def arc_returns(weights: NDArray, stage: int, num_stages: int, radius: float) -> NDArray:
    """Returns [K, P, m] on a sphere: r·w/|w|, where r grows from radius/2 to radius. All are on the front."""
    reached = radius * (0.5 + 0.5 * stage / (num_stages - 1))
    return reached * weights / np.linalg.norm(weights, axis=-1, keepdims=True)


@dataclass(frozen=True)
class SampleRun:
    """A run to write: ``SampleRun(method="mean", seed=7).write(path)``.

    K policies of P weights each are evaluated at every stage, with returns on a growing arc; ``showing`` makes one
    with returns of your own.
    """

    problem: str | None = None
    """One that exists, or None: one on paper, of ``num_objectives``."""
    num_objectives: int = 2
    horizon: int | None = None
    method: str = "ucb"
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Any other settings of the run."""

    num_policies: int = 3
    probes: int = 4
    num_stages: int = 4
    radius: float = 100.0
    """Of the arc at the last stage."""
    returns: tuple[NDArray, ...] = ()
    """[K, P, m] of every stage, instead of the arc."""

    finished: bool = True
    found: Mapping[str, float] = field(default_factory=dict)
    """What the summary says was found, instead of what was."""

    @classmethod
    def showing(cls, *returns: NDArray) -> SampleRun:
        """A run with the given returns [K, P, m], one array per stage."""
        num_policies, probes, num_objectives = returns[0].shape
        return cls(
            num_objectives=num_objectives,
            num_policies=num_policies,
            probes=probes,
            num_stages=len(returns),
            returns=returns,
        )

    def write(self, path: Path) -> Path:
        """Write all stages into the directory ``path``, which is returned."""
        spec, config = self._resolve()
        data, parts = config.to_json() | {"problem": spec.name}, make_run_decomposition(config, spec)
        path.mkdir(parents=True)
        writer = RunWriter(path, data, spec)
        for stage in range(self.num_stages):
            values = self._returns_at(stage, parts.probes)
            finished = self.finished and stage == self.num_stages - 1
            summary = stage_summary(spec, data, values, stage, finished) | self.found
            metrics = stage_metrics(spec, stage, parts.candidates, values, self.method)
            tensors = random_tensors(spec, self.num_policies)
            writer.write_stage(stage, metrics, parts.probes, values, tensors, summary)
        return path

    def _resolve(self) -> tuple[EnvSpec, MoppoConfig]:
        spec = make_spec(self.problem, self.horizon) if self.problem else sample_spec(self.num_objectives)
        settings = {
            **{"method": self.method, "seed": self.seed, "horizon": self.horizon},
            **{"policies": self.num_policies, "probes": self.probes, "active": 2, "samples": 10},
            **{"replicas": 1, "candidate_values": "probes", "held_out": 0},
            **{"steps": 10 * self.num_policies * 50, **self.settings},
        }
        return spec, resolve(override(default_settings(self.problem or "Swimmer-v2", "paper"), **settings), spec)

    def _returns_at(self, stage: int, weights: NDArray) -> NDArray:
        if self.returns:
            return self.returns[stage]
        return arc_returns(weights, stage, self.num_stages, self.radius)


def indicators(values: NDArray, spec: EnvSpec) -> dict[str, float]:
    points = values.reshape(-1, values.shape[-1])
    return {
        "hypervolume": hypervolume(points, spec.reference_point),
        "expected_utility": expected_utility(points, even_weights(points.shape[-1])),
        "sparsity": sparsity(points),
        "cardinality": cardinality(points),
    }


def stage_metrics(spec: EnvSpec, stage: int, candidates: NDArray, values: NDArray, method: str) -> dict[str, Any]:
    return {
        "stage": stage,
        "iteration": stage,
        "training_steps": stage * STEPS_PER_STAGE,
        "evaluation_steps": (stage + 1) * 1000,
        "seconds": 10.0 * (stage + 1),
        "stage_seconds": {"selecting": 1.0, "training": 6.0, "evaluating": 3.0},
        **indicators(values, spec),
        "selected_weights": candidates[:, :2].tolist() if stage else None,
        "learning": {},
        "surrogate": surrogate_lines(values) if stage > 1 and method in ("ucb", "mean") else {},
    }


def surrogate_lines(values: NDArray) -> dict[str, Any]:
    """Predicted 2, realised 3 everywhere: an error of 1 against a change of 3."""
    num_policies, _, m = values.shape
    return {
        "beta": 0.5,
        "predicted_change": np.full((num_policies, m), 2.0).tolist(),
        "beta_sigma": np.full((num_policies, m), 0.25).tolist(),
        "predicted": np.full(values.shape, 2.0).tolist(),
        "realised": np.full(values.shape, 3.0).tolist(),
        "absolute_error": [1.0] * m,
        "absolute_change": [3.0] * m,
    }


def random_tensors(spec: EnvSpec, num_policies: int) -> dict[str, NDArray]:
    """Untrained actors of ``num_policies`` policies, with a leading axis."""
    rng, m, d = np.random.default_rng(0), spec.num_objectives, spec.observation_size
    actors = [init_mlp(rng, d, m, spec.action.size, CELLS, ACTOR_GAIN) for _ in range(num_policies)]
    tensors = {f"actor.{name}": np.stack([actor[name] for actor in actors]) for name in actors[0]}
    if not spec.action.discrete:
        tensors["actor.log_std"] = np.zeros((num_policies, spec.action.size), np.float32)
    tensors["observation.mean"] = np.zeros((num_policies, d), np.float32)
    tensors["observation.variance"] = np.ones((num_policies, d), np.float32)
    tensors["observation.count"] = np.ones(num_policies, np.float32)
    return tensors


def stage_summary(
    spec: EnvSpec, config: Mapping[str, Any], values: NDArray, stage: int, finished: bool
) -> dict[str, Any]:
    return {
        "problem": spec.name,
        "method": config["method"],
        "seed": config["seed"],
        "objectives": list(spec.objectives),
        "reference_point": list(spec.reference_point),
        "finished": finished,
        **indicators(values, spec),
        "policies": config["search"]["policies"],
        "parameters": 1234,
        "training_steps": stage * STEPS_PER_STAGE,
        "evaluation_steps": (stage + 1) * 1000,
        "seconds": 10.0 * (stage + 1),
    }


def rewrite(run: Path, name: str, data: bytes) -> None:
    """Change a file of a run, and what its manifest knows of it."""
    manifest = json.loads((run / MANIFEST).read_text())
    manifest["files"][name] = [make_digest(data).to_json()]
    (run / name).write_bytes(data)
    (run / MANIFEST).write_text(json.dumps(manifest))


def add_indicator(run: Path, name: str, values: Sequence[float | None]) -> None:
    """Give a run an indicator of somebody's own: its value at every stage, the last one in the summary too."""
    lines = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    summary = json.loads((run / SUMMARY).read_text())
    for record, value in zip([*lines, summary], [*values, values[-1]], strict=True):
        record.setdefault("extra_indicators", {})[name] = value
    rewrite(run, METRICS, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
    rewrite(run, SUMMARY, json.dumps(summary).encode())
