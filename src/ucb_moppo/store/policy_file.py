"""A policy as one file, and the problem and network it needs as JSON. Nothing that is read is executed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, ValidationError
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.policy.networks import PAPER_NETWORK, Network, head_sizes
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import ActionSpec, EnvSpec, ObservationPart
from ucb_moppo.store.guarded import read_bytes, write_file
from ucb_moppo.store.storage import (
    MAX_TENSORS,
    check_format,
    dump_tensors,
    finite_or_none,
    parse_tensors,
)

FORMAT, KIND = 1, "ucb-moppo policy"

Size = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Start = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Scale = Annotated[float, Meta(gt=0)]
Bound = float | Literal["inf", "-inf"]
"""JSON has no infinite numbers, so these are words."""
Numbers = Literal[
    "", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
]
"""What an array of actions may be of."""


class StoredAction(Struct, forbid_unknown_fields=True):
    """``ActionSpec`` as JSON."""

    discrete: bool
    size: Size
    low: list[Bound]
    high: list[Bound]
    start: int = 0
    choices: tuple[Size, ...] = ()
    shape: tuple[Size, ...] | None = None
    dtype: Numbers = ""

    def __post_init__(self) -> None:
        wanted = 0 if self.discrete else self.size
        if self.shape is not None and prod(self.shape) != (1 if self.discrete else self.size):
            raise ValueError(f"an array of shape {self.shape} does not hold {self.size} numbers")
        if not len(self.low) == len(self.high) == wanted:
            raise ValueError(f"there are {len(self.low)} lower and {len(self.high)} upper bounds, not {wanted}")
        if self.choices and len(self.choices) != wanted:
            raise ValueError(f"there are {len(self.choices)} numbers of choices, not {wanted}")

    def to_spec(self) -> ActionSpec:
        low, high = (tuple(map(float, bounds)) for bounds in (self.low, self.high))
        return ActionSpec(**msgspec.structs.asdict(self) | {"low": low, "high": high})


class StoredPart(Struct, forbid_unknown_fields=True):
    """``ObservationPart`` as JSON."""

    path: tuple[str | int, ...]
    shape: tuple[Size, ...]
    choices: tuple[Size, ...] = ()
    start: tuple[Start, ...] = ()

    def __post_init__(self) -> None:
        if len(self.choices) != len(self.start) or (self.choices and len(self.choices) != prod(self.shape)):
            raise ValueError(
                f"{len(self.choices)} numbers of choices and {len(self.start)} starts do not fit shape {self.shape}"
            )

    def to_spec(self) -> ObservationPart:
        return ObservationPart(**msgspec.structs.asdict(self))


class StoredSpec(Struct, forbid_unknown_fields=True):
    """``EnvSpec`` as JSON."""

    name: str
    objectives: Annotated[tuple[str, ...], Meta(min_length=2)]
    observation_size: Size
    action: StoredAction
    horizon: Size
    reference_point: tuple[float, ...]
    discrete_observation: bool = False
    observation_start: int = 0
    observation_parts: tuple[StoredPart, ...] = ()
    accrued_scales: tuple[Scale, ...] = ()

    def __post_init__(self) -> None:
        parts = self.observation_parts
        if self.accrued_scales and len(self.accrued_scales) != len(self.objectives):
            raise ValueError(f"accrued_scales has {len(self.accrued_scales)} of {len(self.objectives)} numbers")
        if parts and sum(part.to_spec().size for part in parts) != self.observation_size:
            raise ValueError(f"observation_parts do not make {self.observation_size} numbers")
        if len(self.reference_point) != len(self.objectives):
            raise ValueError(f"reference_point has {len(self.reference_point)} of {len(self.objectives)} numbers")

    def to_spec(self) -> EnvSpec:
        parts = tuple(part.to_spec() for part in self.observation_parts)
        return EnvSpec(
            **msgspec.structs.asdict(self) | {"action": self.action.to_spec(), "observation_parts": parts}
        )


class Conditioning(Struct):
    """Which policy a file holds and what it is conditioned on, in its header."""

    index: int
    weight: list[float]
    expected_returns: list[float | None]


def save_policy(policy: Policy, path: str | Path) -> Path:
    """Write a policy to one file that ``load_policy`` reads."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ConfigError(f"a policy is saved as a .safetensors file, not as {path.name!r}")
    header = {
        "format": FORMAT,
        "kind": KIND,
        "spec": spec_to_json(policy.spec),
        "index": policy.index,
        "weight": policy.weight.tolist(),
        "expected_returns": finite_or_none(policy.expected_returns.tolist()),
        **network_to_json(policy.network),
    }
    write_file(path, dump_tensors(policy.tensors, header))
    return path


def load_policy(path: Path) -> Policy:
    """Read a file that ``Policy.save`` wrote. Nothing in it is executed."""
    path = path.resolve()  # a link that the user names is followed; one inside a run is not
    header, tensors = parse_tensors(read_bytes(path.parent, path.name, MAX_TENSORS), path)
    if header.get("kind") != KIND:
        raise RunFormatError(f"{path} is not a policy saved by ucb-moppo")
    check_format(header.get("format"), FORMAT, FORMAT, path, "save it again from its run")
    spec = read_spec(header.get("spec"), path)
    network = read_network(header, path)
    check_actors(spec, network, {name: array[None] for name, array in tensors.items()}, path)
    try:
        found = msgspec.convert(header, Conditioning)
    except ValidationError as fault:
        raise RunFormatError(f"{path} is not a policy saved by ucb-moppo: {fault}") from fault
    weight, returns = np.array(found.weight, np.float64), np.array(found.expected_returns, np.float64)
    if not weight.shape == returns.shape == (spec.num_objectives,):
        raise RunFormatError(f"{path} has weights of shape {weight.shape} for {spec.num_objectives} objectives")
    return Policy(spec, found.index, weight, returns, tensors, network)


def check_actors(spec: EnvSpec, network: Network, tensors: Mapping[str, NDArray], path: Path) -> None:
    """Refuse arrays [K, …] that are not actors for the problem: no size in ``spec`` is believed by itself."""
    shapes = {name: array.shape[1:] for name, array in tensors.items()}
    for name, shape in actor_shapes(spec, network, shapes).items():
        if name not in shapes:
            raise RunFormatError(f"{path} has no {name}")
        if shapes[name] != shape or tensors[name].dtype != np.float32:
            raise RunFormatError(f"{path}: {name} is {tensors[name].dtype} {shapes[name]}, not float32 {shape}")
        if not np.isfinite(tensors[name]).all():
            raise RunFormatError(f"{path}: {name} holds numbers that are not finite")


def actor_shapes(
    spec: EnvSpec, network: Network, found: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Shapes of what acting needs of one policy; how wide its layers are is taken from the biases ``found``."""
    size = spec.input_size
    shapes: dict[str, tuple[int, ...]] = {"observation.mean": (size,), "observation.variance": (size,)}
    shapes["observation.count"] = ()
    inputs = size + spec.num_objectives * network.conditioned
    for layer in network.layers:
        cells = sum(found.get(f"actor.{layer}.bias", ())[:1])
        shapes |= {f"actor.{layer}.kernel": (inputs, cells), f"actor.{layer}.bias": (cells,)}
        inputs = cells
    inputs += spec.num_objectives * network.residual
    for head, outputs in head_sizes(spec.action.size, spec.action.choices).items():
        shapes |= {f"actor.{head}.kernel": (inputs, outputs), f"actor.{head}.bias": (outputs,)}
    # Actors that explore by noise of their own making have no std to keep.
    spread = not spec.action.chosen and (network == PAPER_NETWORK or "actor.log_std" in found)
    return shapes | ({"actor.log_std": (spec.action.size,)} if spread else {})


def network_to_json(network: Network) -> dict[str, Any]:
    """How the tensors act, where that is not as usual."""
    return {} if network == PAPER_NETWORK else {"network": network.to_json()}


def read_network(data: Mapping[str, Any], path: Path) -> Network:
    """What ``network_to_json`` left in ``path``."""
    try:
        return Network(**data.get("network", {}))
    except (TypeError, ValueError) as fault:
        raise RunFormatError(f"{path} does not describe a network: {fault}") from fault


def read_spec(data: Any, path: Path) -> EnvSpec:
    """A problem out of ``path``, refused unless everything in it is of its kind."""
    try:
        return msgspec.convert(data, StoredSpec).to_spec()
    except ValidationError as fault:
        raise RunFormatError(f"{path} does not describe a problem: {fault}") from fault


def spec_to_json(spec: EnvSpec) -> dict[str, Any]:
    """Plain data; infinite bounds become strings, which JSON can hold, and what few problems have is left out
    where it is empty."""
    data = dataclasses.asdict(spec)
    for bound in ("low", "high"):
        data["action"][bound] = [str(x) if np.isinf(x) else x for x in data["action"][bound]]
    for holder, name in ((data["action"], "choices"), (data, "observation_parts"), (data, "accrued_scales")):
        if not holder[name]:
            del holder[name]
    for name, unsaid in (("shape", None), ("dtype", "")):
        if data["action"][name] == unsaid:
            del data["action"][name]
    return data
