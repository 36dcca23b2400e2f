"""Small runs written by hand, whose every number a test can derive: no training, no waiting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import default_config, override, resolve, to_json
from ucb_moppo.engine.trainer import make_run_decomposition
from ucb_moppo.envs import make_spec
from ucb_moppo.objectives.pareto import cardinality, expected_utility, hypervolume, sparsity
from ucb_moppo.objectives.weights import even_weights
from ucb_moppo.policy.networks import ACTOR_GAIN, init_mlp
from ucb_moppo.spec import ActionSpec, EnvSpec
from ucb_moppo.store.layout import MANIFEST
from ucb_moppo.store.storage import make_digest
from ucb_moppo.store.writer import RunWriter

CELLS, STEPS_PER_STAGE = 4, 3000


def sample_spec(num_objectives: int) -> EnvSpec:
    """A problem of any number of objectives that exists only on paper."""
    names = ("speed", "energy", "height", "comfort", "price")[:num_objectives]
    action = ActionSpec(False, 2, (-1.0, -1.0), (1.0, 1.0))
    return EnvSpec("paper-problem", names, 3, action, 100, (0.0,) * num_objectives)


def arc_returns(weights: NDArray, stage: int, num_stages: int, scale: float = 100.0) -> NDArray:
    """Returns [K, P, m] on a growing sphere: r·w/|w| with r from scale/2 to scale. At the end all on the front."""
    radius = scale * (0.5 + 0.5 * stage / (num_stages - 1))
    return radius * weights / np.linalg.norm(weights, axis=-1, keepdims=True)


def write_sample(
    path: Path,
    *,
    problem: str | None = None,
    num_objectives: int = 2,
    method: str = "ucb",
    seed: int = 0,
    num_policies: int = 3,
    probes: int = 4,
    num_stages: int = 4,
    scale: float = 100.0,
    finished: bool = True,
    returns: Sequence[NDArray] | None = None,
    found: Mapping[str, float] = MappingProxyType({}),
    **settings: Any,
) -> Path:
    """A run of ``num_stages`` evaluations on the arc, or with the given ``returns`` [K, P, m] of each.

    ``found`` replaces what the summary says was found.
    """
    spec = make_spec(problem, settings.get("horizon")) if problem else sample_spec(num_objectives)
    config = override(
        default_config(problem or "Swimmer-v2", "paper"),
        **{"method": method, "seed": seed, "policies": num_policies, "probes": probes, "active": 2, "samples": 10},
        **{"steps": 10 * num_policies * 50, **settings},
    )
    config = resolve(config, spec)
    data = to_json(config) | {"problem": spec.name}
    path.mkdir(parents=True)
    writer, parts = RunWriter(path, data, spec), make_run_decomposition(config, spec)
    for stage in range(num_stages):
        values = arc_returns(parts.probes, stage, num_stages, scale) if returns is None else returns[stage]
        summary = stage_summary(spec, data, values, stage, finished and stage == num_stages - 1) | found
        metrics = stage_metrics(spec, stage, parts.candidates, values, method)
        tensors = random_tensors(spec, num_policies)
        writer.write_stage(stage, metrics, parts.probes, values, tensors, summary)
    return path


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
