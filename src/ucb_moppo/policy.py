"""A trained policy to deploy: numpy and safetensors alone, no JAX and no simulator."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ucb_moppo.envs.base import ActionSpec, EnvSpec
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.ppo.networks import Params, apply_mlp, greedy_action
from ucb_moppo.ppo.normaliser import Statistics, normalise

FORMAT = 1
STATISTICS = tuple(f"observation.{name}" for name in Statistics._fields)


@dataclass(frozen=True, eq=False)
class Policy:
    """One trained policy conditioned on one preference: ``action = policy(observation)``."""

    spec: EnvSpec
    index: int
    """Which of the run's policies it is."""
    weight: NDArray
    """[m] the preference it is conditioned on."""
    expected_returns: NDArray
    """[m] returns measured at the evaluated weight that was best for the preference."""
    tensors: dict[str, NDArray]
    """actor.* and observation.* arrays, without a leading axis."""

    @property
    def actor(self) -> Params:
        prefix = "actor."
        return {n.removeprefix(prefix): a for n, a in self.tensors.items() if n.startswith(prefix)}

    def __call__(self, observation: ArrayLike) -> Any:
        """The deterministic action for one observation as the environment shows it, or for a batch of them.

        Box actions come in the environment's own range, Discrete ones as integers.
        """
        inputs, single = self._encode(np.asarray(observation))
        stats = Statistics(*(self.tensors[name] for name in STATISTICS))
        actor = self.actor
        weight = np.broadcast_to(self.weight.astype(np.float32), (len(inputs), len(self.weight)))
        output = apply_mlp(actor, normalise(stats, inputs), weight)
        action = self.spec.action.to_environment(greedy_action(actor, output))
        if not single:
            return action
        return int(action[0]) if self.spec.action.discrete else action[0]

    def _encode(self, observation: NDArray) -> tuple[NDArray, bool]:
        """Rows [B, observation_size] of float32, and whether there was just one."""
        size = self.spec.observation_size
        if self.spec.discrete_observation:
            numbers = np.atleast_1d(observation).astype(int) - self.spec.observation_start
            return np.eye(size, dtype=np.float32)[numbers], observation.ndim == 0
        if observation.size % size or not observation.size:
            raise ConfigError(
                f"an observation of shape {observation.shape} was given; {self.spec.name} has {size} numbers"
            )
        # A picture of 2 × 3 is one observation of 6 numbers; a table of 1 × 6 is a batch of one.
        single = observation.size == size and (observation.ndim < 2 or observation.shape[-1] != size)
        return observation.reshape(-1, size).astype(np.float32), single

    def save(self, path: str | Path) -> Path:
        """Write the policy to one file that ``ucb_moppo.load`` reads."""
        path = Path(path)
        if path.suffix != ".safetensors":
            raise ConfigError(f"a policy is saved as a .safetensors file, not as {path.name!r}")
        header = {
            "format": FORMAT,
            "kind": "ucb-moppo policy",
            "spec": spec_to_json(self.spec),
            "index": self.index,
            "weight": self.weight.tolist(),
            "expected_returns": self.expected_returns.tolist(),
        }
        arrays = {name: np.array(array, order="C") for name, array in self.tensors.items()}
        save_file(arrays, path, metadata={"ucb_moppo": json.dumps(header)})
        return path


def load_policy(path: Path) -> Policy:
    """Read a file that ``Policy.save`` wrote. Nothing in it is executed."""
    header, tensors = read_tensors(path)
    try:
        return Policy(
            spec=spec_from_json(header["spec"]),
            index=int(header["index"]),
            weight=np.asarray(header["weight"], np.float64),
            expected_returns=np.asarray(header["expected_returns"], np.float64),
            tensors=tensors,
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise RunFormatError(f"{path.name} is not a policy saved by ucb-moppo: {fault!r}") from fault


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """The JSON header and all arrays of a safetensors file of ours."""
    try:
        with safe_open(path, "numpy") as file:
            header = json.loads((file.metadata() or {}).get("ucb_moppo", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as fault:
        raise RunFormatError(f"{path.name} cannot be read as a safetensors file: {fault}") from fault
    return header, tensors


def spec_to_json(spec: EnvSpec) -> dict[str, Any]:
    """Plain data; infinite bounds become strings, which JSON can hold."""
    data = dataclasses.asdict(spec)
    for bound in ("low", "high"):
        data["action"][bound] = [str(x) if np.isinf(x) else x for x in data["action"][bound]]
    return data


def spec_from_json(data: dict[str, Any]) -> EnvSpec:
    """What ``spec_to_json`` made data of."""
    fields = dict(data)
    action = dict(fields.pop("action"))
    for bound in ("low", "high"):
        action[bound] = tuple(float(x) for x in action[bound])
    fields["objectives"] = tuple(fields["objectives"])
    fields["reference_point"] = tuple(fields["reference_point"])
    return EnvSpec(action=ActionSpec(**action), **fields)
