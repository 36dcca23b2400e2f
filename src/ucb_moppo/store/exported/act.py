"""Act like the policy of this folder, with numpy alone: act(row of numbers as policy.json explains it, or rows)."""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
POLICY = json.loads((HERE / "policy.json").read_text(encoding="utf-8"))
NETWORK, ACTION, ARRAYS = POLICY["network"], POLICY["action"], dict(np.load(HERE / "parameters.npz"))
ACTIVATION = np.tanh
BOUND = np.tanh if NETWORK["squash"] else np.asarray


def act(observation, weight=POLICY["weight"]):
    """The deterministic action in the environment's own range, for a row [d] or for each of a batch."""
    rows = np.asarray(observation, np.float32).reshape(-1, POLICY["observation_size"])
    weights = np.broadcast_to(np.asarray(weight, np.float32), (len(rows), len(POLICY["weight"])))
    hidden = np.clip((rows - ARRAYS["mean"]) / ARRAYS["std"], -ARRAYS["clip"], ARRAYS["clip"])
    hidden = np.concatenate([hidden, weights], axis=1) if NETWORK["conditioned"] else hidden
    for layer in POLICY["layers"]:
        hidden = ACTIVATION(hidden @ ARRAYS[f"{layer}.kernel"] + ARRAYS[f"{layer}.bias"])
    hidden = np.concatenate([hidden, weights], axis=1) if NETWORK["residual"] else hidden
    outputs = [BOUND(hidden @ ARRAYS[f"{head}.kernel"] + ARRAYS[f"{head}.bias"]) for head in POLICY["heads"]]
    if ACTION["kind"] == "box":
        actions = np.clip(outputs[0] * ARRAYS["scale"] + ARRAYS["centre"], ARRAYS["low"], ARRAYS["high"])
    else:  # the likeliest of each choice, counted as the environment counts
        actions = np.stack([output.argmax(axis=1) for output in outputs], axis=1) + np.array(ACTION["start"])
    return actions.reshape((*np.shape(observation)[:-1], *ACTION["shape"])).astype(ACTION["dtype"])[()]
