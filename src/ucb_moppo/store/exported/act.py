"""Act like the policy that this folder holds: action = act(observation). Needs numpy and nothing else.

An observation is the row of numbers that the policy sees (policy.json explains it), or a batch of rows, [B, d].
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
POLICY = json.loads((HERE / "policy.json").read_text(encoding="utf-8"))
NETWORK, ACTION = POLICY["network"], POLICY["action"]
ARRAYS = dict(np.load(HERE / "parameters.npz"))
ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: 0.5 * x * (1 + np.tanh(0.5 * x)),
}


def act(observation, weight=POLICY["weight"]):
    """The deterministic action in the environment's own range, for one observation [d] or for each of a batch."""
    rows = np.asarray(observation, np.float32).reshape(-1, POLICY["observation_size"])
    weights = np.broadcast_to(np.asarray(weight, np.float32), (len(rows), len(POLICY["weight"])))
    rows = np.clip((rows - ARRAYS["mean"]) / ARRAYS["std"], -ARRAYS["clip"], ARRAYS["clip"])
    hidden = np.concatenate([rows, weights], axis=1) if NETWORK["conditioned"] else rows
    for layer in POLICY["layers"]:
        hidden = ACTIVATIONS[NETWORK["activation"]](hidden @ ARRAYS[f"{layer}.kernel"] + ARRAYS[f"{layer}.bias"])
    hidden = np.concatenate([hidden, weights], axis=1) if NETWORK["residual"] else hidden
    outputs = [hidden @ ARRAYS[f"{head}.kernel"] + ARRAYS[f"{head}.bias"] for head in POLICY["heads"]]
    outputs = [np.tanh(output) for output in outputs] if NETWORK["squash"] else outputs
    if ACTION["kind"] == "box":
        actions = np.clip(outputs[0] * ARRAYS["scale"] + ARRAYS["centre"], ARRAYS["low"], ARRAYS["high"])
    else:  # the likeliest of each choice, counted as the environment counts
        actions = np.stack([output.argmax(axis=1) for output in outputs], axis=1) + np.array(ACTION["start"])
    actions = actions[:, 0] if ACTION["kind"] == "discrete" else actions
    return actions if np.ndim(observation) > 1 else actions[0]
