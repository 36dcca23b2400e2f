"""The weight-conditioned actor and critic (the paper, "Scalarisation-vector-conditioned Actor-Critic").

Plain functions of arrays that run on numpy and on JAX alike, so that the network that is trained is the one
that is deployed. Shapes are those of one policy and a batch of B inputs; with a leading axis K on parameters
and inputs alike they compute K policies at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count, takewhile
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Array = Any  # numpy.ndarray or jax.Array
Params = dict[str, Array]
Activation = Literal["tanh", "relu", "elu", "silu"]
MAX_HIDDEN_LAYERS = 16

HIDDEN_GAIN = float(np.sqrt(2.0))
ACTOR_GAIN = 0.01
CRITIC_GAIN = 1.0


@dataclass(frozen=True)
class Network:
    """How named parameters (hidden1 … hiddenL, head) make an output. The default is this package's own network."""

    activation: Activation = "tanh"
    hidden_layers: int = 2
    """L, layers before the head."""
    conditioned: bool = True
    """Whether the input holds the weight."""
    residual: bool = True
    """Whether the head sees the weight (again)."""
    squash: bool = False
    """Whether tanh bounds the output; as for every actor, [-1, 1] is then stretched to the action range."""

    def __post_init__(self) -> None:
        if self.activation not in get_args(Activation):
            raise ValueError(f"activation is {self.activation!r}; it must be one of {get_args(Activation)}")
        layers = self.hidden_layers
        if type(layers) is not int or not 1 <= layers <= MAX_HIDDEN_LAYERS:
            raise ValueError(f"hidden_layers is {layers!r}; it must be 1 to {MAX_HIDDEN_LAYERS}")
        for name in ("conditioned", "residual", "squash"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be true or false")

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``Network(**data)`` reads it back."""
        return asdict(self)

    @property
    def layers(self) -> list[str]:
        """Names of the hidden layers, first to last."""
        return [f"hidden{number}" for number in range(1, self.hidden_layers + 1)]


def _tanh(xp: Any, x: Array) -> Array:
    return xp.tanh(x)


def _relu(xp: Any, x: Array) -> Array:
    return xp.maximum(x, x * 0)


def _elu(xp: Any, x: Array) -> Array:
    """x where it is positive, else eˣ − 1. The exponential sees no positive number: none can overflow."""
    return xp.where(x > 0, x, xp.expm1(xp.minimum(x, x * 0)))


def _silu(xp: Any, x: Array) -> Array:
    """x / (1 + e⁻ˣ), written with tanh, which cannot overflow."""
    return 0.5 * x * (1 + xp.tanh(0.5 * x))


ACTIVATIONS: dict[Activation, Callable[[Any, Array], Array]] = {
    "tanh": _tanh,
    "relu": _relu,
    "elu": _elu,
    "silu": _silu,
}
"""Each a function of the array library and of what goes in."""

PAPER_NETWORK = Network()
"""The paper's network: two tanh layers, the weight at the input and again before the head."""


def apply_mlp(params: Params, inputs: Array, weight: Array, network: Network = PAPER_NETWORK) -> Array:
    """Hidden layers on inputs ⊕ w, then a linear layer on hidden ⊕ w: [B, d], [B, m] -> [B, out].

    w enters again before the last layer (the residual connection), which keeps the output sensitive to it.
    ``network`` says where another method's network differs.
    """
    xp = inputs.__array_namespace__()
    hidden = xp.concat([inputs, weight], axis=-1) if network.conditioned else inputs
    for layer in network.layers:
        hidden = _linear(params, layer, hidden)
        hidden = ACTIVATIONS[network.activation](xp, hidden)
    hidden = xp.concat([hidden, weight], axis=-1) if network.residual else hidden
    outputs = [_linear(params, head, hidden) for head in heads_of(params)]
    output = outputs[0] if len(outputs) == 1 else xp.concat(outputs, axis=-1)
    return xp.tanh(output) if network.squash else output


def heads_of(params: Params) -> list[str]:
    """Names of the last layers, in order: one head, or head1, head2, … where each makes a choice of its own."""
    if "head1.bias" not in params:
        return ["head"]
    return list(takewhile(lambda head: f"{head}.bias" in params, (f"head{number}" for number in count(1))))


def head_sizes(num_outputs: int, choices: Sequence[int] = ()) -> dict[str, int]:
    """Outputs of each head by its name: all of one, or of one head for each number of choices."""
    return {f"head{number}": size for number, size in enumerate(choices, start=1)} or {"head": num_outputs}


def _linear(params: Params, layer: str, inputs: Array) -> Array:
    return inputs @ params[f"{layer}.kernel"] + params[f"{layer}.bias"][..., None, :]


def init_mlp(
    rng: np.random.Generator,
    num_inputs: int,
    num_objectives: int,
    num_outputs: int,
    cells: int,
    head_gain: float,
    choices: Sequence[int] = (),
    layers: Sequence[str] = PAPER_NETWORK.layers,
) -> dict[str, NDArray]:
    """Orthogonal kernels, zero biases; ``head_gain`` scales the last layer, or one per number of ``choices``."""
    first, *others = layers
    shapes = {
        first: (num_inputs + num_objectives, cells, HIDDEN_GAIN),
        **dict.fromkeys(others, (cells, cells, HIDDEN_GAIN)),
        **{
            head: (cells + num_objectives, size, head_gain)
            for head, size in head_sizes(num_outputs, choices).items()
        },
    }
    params = {}
    for layer, (fan_in, fan_out, gain) in shapes.items():
        params[f"{layer}.kernel"] = gain * orthogonal(rng, fan_in, fan_out)
        params[f"{layer}.bias"] = np.zeros(fan_out, np.float32)
    return params


def orthogonal(rng: np.random.Generator, fan_in: int, fan_out: int) -> NDArray:
    """A [fan_in, fan_out] matrix with orthonormal columns (or rows, whichever are fewer), Haar distributed."""
    tall = rng.standard_normal((max(fan_in, fan_out), min(fan_in, fan_out)))
    q, r = np.linalg.qr(tall)
    q *= np.sign(np.diag(r))
    return (q if fan_in >= fan_out else q.T).astype(np.float32)


def init_params(
    rng: np.random.Generator,
    *,
    observation_size: int,
    num_objectives: int,
    action_size: int,
    discrete: bool,
    cells: int,
    log_std: float,
    choices: Sequence[int] = (),
    layers: Sequence[str] = PAPER_NETWORK.layers,
    num_values: int | None = None,
) -> dict[str, dict[str, NDArray]]:
    """Actor (Gaussian mean and a state-independent log-std, or logits) and critic (a value per objective, or
    ``num_values``)."""
    actor = init_mlp(rng, observation_size, num_objectives, action_size, cells, ACTOR_GAIN, choices, layers)
    if not discrete and not choices:
        actor["log_std"] = np.full(action_size, log_std, np.float32)
    outputs = num_values or num_objectives
    critic = init_mlp(rng, observation_size, num_objectives, outputs, cells, CRITIC_GAIN, (), layers)
    return {"actor": actor, "critic": critic}


def add_noise(actor: Params, output: Array, noise: Array) -> Array:
    """The actor's output [B, a] perturbed: Box by its std times normal noise, logits by Gumbel noise."""
    if "log_std" not in actor:
        return output + noise
    return output + output.__array_namespace__().exp(actor["log_std"])[..., None, :] * noise


def split_logits(actor: Params, logits: Array) -> list[Array]:
    """The logits [..., Σn] of all heads -> those of each, [..., n]."""
    heads = heads_of(actor)
    if len(heads) == 1:
        return [logits]
    ends = np.cumsum([actor[f"{head}.bias"].shape[-1] for head in heads]).tolist()
    return [logits[..., start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def choose(actor: Params, output: Array) -> Array:
    """The likeliest choice of each head, [..., H], where the actor has several; else its output as it is.

    Choices are numbers like the components of a Box action, NaN where the logits are not finite.
    """
    if heads_of(actor) == ["head"]:
        return output
    xp = output.__array_namespace__()
    chosen = xp.stack([xp.argmax(logits, axis=-1) for logits in split_logits(actor, output)], axis=-1)
    finite = xp.isfinite(output).all(axis=-1, keepdims=True)
    return xp.where(finite, chosen.astype(output.dtype), xp.nan)


def greedy_action(output: Array, discrete: bool) -> Array:
    """The mean (Box), the choices (MultiDiscrete) or the likeliest choice (Discrete): what evaluation and
    deployment use."""
    return output.__array_namespace__().argmax(output, axis=-1) if discrete else output
