"""A policy for other programs: as ONNX, or as a folder with a few lines of numpy that need nothing of ours.

Both take rows of numbers as the policy sees them and give actions as the environment takes them: normalisation,
weight and action range are part of what is exported.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import ConfigError, needing, require
from ucb_moppo.objectives.weights import check_weights
from ucb_moppo.policy.networks import Activation, heads_of
from ucb_moppo.policy.normaliser import CLIP
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import ActionSpec, EnvSpec, ObservationPart
from ucb_moppo.store.front import best_row
from ucb_moppo.store.guarded import open_folder, write_file, writing
from ucb_moppo.store.policy_file import save_policy, spec_to_json
from ucb_moppo.store.run import Run, open_path
from ucb_moppo.store.storage import finite_or_none

Format = Literal["safetensors", "onnx", "numpy"]
OPSET, IR_VERSION = 17, 8
"""Of ONNX: of 2022, so that runtimes need not be new."""
ACT, OBSERVE, ACCRUE, PARAMETERS, FACTS = "act.py", "observe.py", "accrue.py", "parameters.npz", "policy.json"
NUMPY_CODE: dict[Activation, bytes] = {
    "tanh": b"np.tanh",
    "relu": b"lambda x: np.maximum(x, 0)",
    "elu": b"lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))",
    "silu": b"lambda x: 0.5 * x * (1 + np.tanh(0.5 * x))",
}
"""Activations as act.py computes them."""


def export_policy(policy: Policy, path: str | Path, kind: str | None = None) -> Path:
    """Write a policy in a format that is named, or that the path's suffix tells."""
    path = Path(path)
    kind = kind or format_of(path)
    require(kind in get_args(Format), f"unknown format {kind!r}; choose one of {', '.join(get_args(Format))}")
    writers: dict[str, Callable[[Policy, Path], Path]] = {
        "safetensors": save_policy,
        "onnx": save_onnx,
        "numpy": save_folder,
    }
    return writers[kind](policy, path)


def format_of(path: Path) -> str:
    """The format that a path is for: a folder has no suffix."""
    named = path.suffix.removeprefix(".") or "numpy"
    if named not in get_args(Format):
        raise ConfigError(
            f"no format is known by the suffix of {path.name!r}: name it .safetensors, .onnx, or without a suffix "
            f"for a folder, or say which format it is"
        )
    return named


def default_name(kind: str | None) -> Path:
    """Where a policy is written if nobody says where."""
    return Path("policy" if kind == "numpy" else f"policy.{kind or 'safetensors'}")


def find_policy(
    path: str | Path, weight: ArrayLike | None = None, index: int | None = None, conditioning: str = "preference"
) -> Policy:
    """The policy of a run that serves a preference best, all its policies considered or the one with ``index``; or
    the policy of a file."""
    found = open_path(Path(path))
    if isinstance(found, Policy):
        require(weight is None and index is None, f"{path} is a single policy: there is nothing to choose")
        return found
    if index is None:
        require(weight is not None, "name a weight per objective, e.g. --weight 0.7 0.3, or a policy of the run")
        return found.policy(weight, conditioning)  # type: ignore[arg-type]
    return policy_by_index(found, index, weight, conditioning)


def policy_by_index(run: Run, index: int, weight: ArrayLike | None, conditioning: str) -> Policy:
    """One of a run's policies, under a weight; without one, under its only weight on the front."""
    require(0 <= index < run.num_policies, f"there is no policy {index}: the run has 0 to {run.num_policies - 1}")
    everything = run.chosen_by()
    own = np.flatnonzero(everything.policy == index)
    if weight is None:
        front = run.front()
        weights = front.weights[front.policy == index]
        shown = "; ".join(" ".join(f"{x:.4g}" for x in row) for row in weights) or "none"
        require(
            len(weights) == 1,
            f"policy {index} is on the front with {len(weights)} weights, so name one beside it: {shown}",
        )
        weight, conditioning = weights[0], "evaluated"
    wanted = check_weights(weight, everything.weights.shape[1])
    require(len(own) > 0, f"policy {index} was never evaluated")
    values = run.values(wanted)[own]
    if not np.isfinite(values).any():  # none of its weights is on the front: only stages have seen it
        values = everything.returns[own] @ wanted
    row = int(own[best_row(values)])
    policy = run.evaluated_policy(row)
    return policy if conditioning == "evaluated" else dataclasses.replace(policy, weight=wanted)


# --- what both have in common ------------------------------------------------------------------------------


def describe_policy(policy: Policy) -> dict[str, Any]:
    """What a program, or a person, must know of an exported policy, as plain data."""
    spec, network = policy.spec, policy.network
    return {
        "made_by": "ucb-moppo",
        "problem": spec.name,
        "objectives": list(spec.objectives),
        "weight": policy.weight.tolist(),
        "expected_returns": finite_or_none(policy.expected_returns.tolist()),
        "observation_size": spec.input_size,
        "observation": describe_observation(spec),
        "accrued": describe_accrued(spec),
        "action": describe_action(spec.action),
        "network": network.to_json(),
        "layers": network.layers,
        "heads": heads_of(policy.actors.params),
    }


def describe_observation(spec: EnvSpec) -> list[dict[str, Any]]:
    """How an observation becomes a row of numbers, part by part."""
    parts = spec.parts or (ObservationPart((), (spec.observation_size,)),)
    return [
        {"path": list(p.path), "shape": list(p.shape), "choices": list(p.choices), "start": list(p.start)}
        for p in parts
    ]


def describe_accrued(spec: EnvSpec) -> dict[str, Any] | None:
    """What stands behind an observation in its row: accrued returns over scales, then the time over the horizon."""
    return {"scales": list(spec.accrued_scales), "horizon": spec.horizon} if spec.shows_accrued else None


def describe_action(action: ActionSpec) -> dict[str, Any]:
    """Whether an action is one choice, several, or quantities, its array, and what the first choice is called."""
    kind = "discrete" if action.discrete else "multi_discrete" if action.choices else "box"
    dtype = action.dtype or ("int64" if action.chosen else "float64")
    shape = list(action.own_shape)
    return {"kind": kind, "size": action.size, "shape": shape, "dtype": dtype, "start": first_choices(action)}


def first_choices(action: ActionSpec) -> list[int]:
    """What the environment calls the first of each choice; empty for quantities."""
    if action.discrete:
        return [action.start]
    return [int(low) for low in action.low] if action.choices else []


def normalisation(policy: Policy) -> tuple[NDArray, NDArray, NDArray]:
    """Mean, standard deviation and bound of observations; such that nothing changes where nothing was counted."""
    stats = policy.actors.observation_stats
    if not stats.count > 0:
        size = policy.spec.input_size
        return np.zeros(size, np.float32), np.ones(size, np.float32), np.array(np.inf, np.float32)
    return stats.mean, stats.std, np.array(CLIP, np.float32)


# --- a folder ----------------------------------------------------------------------------------------------


def save_folder(policy: Policy, path: Path) -> Path:
    """Write a policy into a folder: parameters, what they are, and the code that acts with them."""
    files = {
        PARAMETERS: dump_arrays(named_arrays(policy)),
        FACTS: (json.dumps(describe_policy(policy), indent=2) + "\n").encode(),
        ACT: acting_code(policy.network.activation),
    }
    if policy.spec.parts:
        files[OBSERVE] = own_code(OBSERVE)
    if policy.spec.shows_accrued:
        files[ACCRUE] = own_code(ACCRUE)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        with open_folder(path) as folder:
            others = sorted(set(folder.names()) - {ACT, OBSERVE, ACCRUE, PARAMETERS, FACTS, "__pycache__"})
            require(not others, f"{path} holds other files, e.g. {others[:1]}: name a folder that is new or empty")
    for name, data in files.items():
        write_file(path / name, data)
    return path


def own_code(name: str) -> bytes:
    """A file that is exported as it is."""
    return (resources.files("ucb_moppo.store") / "exported" / name).read_bytes()


def acting_code(activation: Activation) -> bytes:
    """act.py with the one activation that its network has."""
    return own_code(ACT).replace(b"ACTIVATION = np.tanh", b"ACTIVATION = " + NUMPY_CODE[activation])


def named_arrays(policy: Policy) -> dict[str, NDArray]:
    """Everything that act.py computes with."""
    arrays = {name: array for name, array in policy.actors.params.items() if name != "log_std"}
    arrays |= dict(zip(("mean", "std", "clip"), normalisation(policy), strict=True))
    if not policy.spec.action.chosen:
        arrays |= dict(zip(("scale", "centre", "low", "high"), policy.spec.action.stretch, strict=True))
    return arrays


def dump_arrays(arrays: dict[str, NDArray]) -> bytes:
    """The bytes of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **cast(Any, arrays))
    return buffer.getvalue()


# --- ONNX --------------------------------------------------------------------------------------------------


def save_onnx(policy: Policy, path: Path) -> Path:
    """Write a policy as an ONNX model: ``observation`` [B, d] of float32 -> ``action``."""
    require(path.suffix == ".onnx", f"an ONNX model is saved as an .onnx file, not as {path.name!r}")
    write_file(path, make_onnx(policy).SerializeToString(deterministic=True))
    return path


def make_onnx(policy: Policy) -> Any:
    """The ONNX model of a policy, checked."""
    with needing("export as ONNX", "onnx"):
        import onnx
    helper, kinds, spec = onnx.helper, onnx.TensorProto, policy.spec
    graph = Graph(onnx)
    output = add_action(graph, spec.action, add_network(graph, policy, add_normalisation(graph, policy)))
    shape: list[str | int | None] = ["batch", *spec.action.own_shape]
    graph.add("Reshape", output, np.array([-1, *spec.action.own_shape], np.int64), name="action")
    kind = kinds.INT64 if spec.action.chosen else kinds.FLOAT
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", kinds.FLOAT, ["batch", spec.input_size])],
            [helper.make_tensor_value_info("action", kind, shape)],
            graph.constants,
        ),
        producer_name="ucb-moppo",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    facts = describe_policy(policy) | {"spec": spec_to_json(spec)}
    helper.set_model_props(model, {name: json.dumps(value) for name, value in facts.items()})
    onnx.checker.check_model(model, full_check=True)
    return model


class Graph:
    """The nodes and constants of an ONNX graph, in the order they are added."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str | NDArray, name: str = "", **attributes: Any) -> str:
        """A node; returns the name of its output. Arrays among the inputs become constants."""
        output = name or f"{operator.lower()}{len(self.nodes)}"
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        self.nodes.append(self._onnx.helper.make_node(operator, names, [output], **attributes))
        return output

    def _constant(self, array: NDArray) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def add_normalisation(graph: Graph, policy: Policy) -> str:
    """Observations less their mean, over their deviation, within bounds."""
    mean, std, bound = normalisation(policy)
    centred = graph.add("Sub", "observation", mean)
    return graph.add("Clip", graph.add("Div", centred, std), -bound, bound)


def add_network(graph: Graph, policy: Policy, inputs: str) -> list[str]:
    """The network; what each head says."""
    network, params, weight = policy.network, policy.actors.params, policy.weight
    for number, layer in enumerate(network.layers):
        inputs = add_layer(graph, params, layer, inputs, weight if network.conditioned and not number else ())
        inputs = add_activation(graph, network.activation, inputs)
    outputs = [
        add_layer(graph, params, head, inputs, weight if network.residual else ()) for head in heads_of(params)
    ]
    return [graph.add("Tanh", output) for output in outputs] if network.squash else outputs


def add_activation(graph: Graph, name: str, inputs: str) -> str:
    """One of the network's activations; SiLU is x times its sigmoid, for which opset 17 has no name."""
    if name == "silu":
        return graph.add("Mul", inputs, graph.add("Sigmoid", inputs))
    return graph.add({"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}[name], inputs)


def add_layer(
    graph: Graph, params: dict[str, NDArray], layer: str, inputs: str, weight: Sequence[float] | NDArray
) -> str:
    """A linear layer. A weight among its inputs is always the same, so what it adds is part of the bias."""
    kernel, bias = params[f"{layer}.kernel"], params[f"{layer}.bias"]
    size = len(kernel) - len(weight)
    shift = np.asarray(weight, np.float32).astype(np.float64) @ kernel[size:]
    return graph.add("Gemm", inputs, kernel[:size], (bias + shift).astype(np.float32))


def add_action(graph: Graph, action: ActionSpec, outputs: list[str]) -> str:
    """What the environment takes: the likeliest choices, or quantities stretched to its range and kept in it."""
    if action.chosen:
        keep = int(not action.discrete)
        chosen = [graph.add("ArgMax", output, axis=1, keepdims=keep) for output in outputs]
        together = chosen[0] if len(chosen) == 1 else graph.add("Concat", *chosen, axis=1)
        return graph.add("Add", together, np.array(first_choices(action), np.int64))
    scale, centre, low, high = action.stretch
    stretched = graph.add("Mul", outputs[0], scale.astype(np.float32))
    moved = graph.add("Add", stretched, centre.astype(np.float32))
    return graph.add("Min", graph.add("Max", moved, round_inwards(low, np.inf)), round_inwards(high, -np.inf))


def round_inwards(bound: NDArray, inwards: float) -> NDArray:
    """A bound as float32 that is not outside it: the nearest, or its neighbour towards ``inwards``."""
    nearest = bound.astype(np.float32)
    outside = nearest < bound if inwards > 0 else nearest > bound
    return np.where(outside, np.nextafter(nearest, np.float32(inwards)), nearest)
