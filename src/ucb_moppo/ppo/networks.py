"""The weight-conditioned actor and critic (the paper, "Scalarisation-vector-conditioned Actor-Critic").

Plain functions of arrays that run on numpy and on JAX alike, so that the network that is trained is the one
that is deployed. Shapes are those of one policy and a batch of B inputs; with a leading axis K on parameters
and inputs alike they compute K policies at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any  # numpy.ndarray or jax.Array
Params = dict[str, Array]

HIDDEN_GAIN = float(np.sqrt(2.0))
ACTOR_GAIN = 0.01
CRITIC_GAIN = 1.0


def apply_mlp(params: Params, inputs: Array, weight: Array) -> Array:
    """Two tanh layers on inputs ⊕ w, then a linear layer on hidden ⊕ w: [B, d], [B, m] -> [B, out].

    w enters again before the last layer (the residual connection), which keeps the output sensitive to it.
    """
    xp = inputs.__array_namespace__()
    hidden = xp.concat([inputs, weight], axis=-1)
    for layer in ("hidden1", "hidden2"):
        hidden = xp.tanh(_linear(params, layer, hidden))
    return _linear(params, "head", xp.concat([hidden, weight], axis=-1))


def _linear(params: Params, layer: str, inputs: Array) -> Array:
    return inputs @ params[f"{layer}.kernel"] + params[f"{layer}.bias"][..., None, :]


def init_mlp(
    rng: np.random.Generator,
    num_inputs: int,
    num_objectives: int,
    num_outputs: int,
    cells: int,
    head_gain: float,
) -> dict[str, NDArray]:
    """Orthogonal kernels, zero biases; ``head_gain`` scales the last layer."""
    shapes = {
        "hidden1": (num_inputs + num_objectives, cells, HIDDEN_GAIN),
        "hidden2": (cells, cells, HIDDEN_GAIN),
        "head": (cells + num_objectives, num_outputs, head_gain),
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
) -> dict[str, dict[str, NDArray]]:
    """Actor (Gaussian mean and a state-independent log-std, or logits) and critic (a value per objective)."""
    actor = init_mlp(rng, observation_size, num_objectives, action_size, cells, ACTOR_GAIN)
    if not discrete:
        actor["log_std"] = np.full(action_size, log_std, np.float32)
    critic = init_mlp(rng, observation_size, num_objectives, num_objectives, cells, CRITIC_GAIN)
    return {"actor": actor, "critic": critic}


def sample_action(actor: Params, output: Array, noise: Array) -> Array:
    """Reparametrised sample from the actor's output [B, a]: Box with normal noise, Discrete with Gumbel."""
    xp = output.__array_namespace__()
    if "log_std" in actor:
        return output + xp.exp(actor["log_std"])[..., None, :] * noise
    return xp.argmax(output + noise, axis=-1)


def greedy_action(actor: Params, output: Array) -> Array:
    """The mean (Box) or the likeliest choice (Discrete): what evaluation and deployment use."""
    xp = output.__array_namespace__()
    return output if "log_std" in actor else xp.argmax(output, axis=-1)
