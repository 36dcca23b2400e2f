"""Make the row of numbers that the policy sees of an observation: action = act(flatten(observation))."""

import json
from pathlib import Path

import numpy as np

PARTS = json.loads((Path(__file__).resolve().parent / "policy.json").read_text(encoding="utf-8"))["observation"]


def flatten(observation):
    """The row [d] of one observation as the environment shows it: numbers as they are, choices one-hot."""
    pieces = []
    for part in PARTS:
        values = observation
        for key in part["path"]:
            values = values[key]
        if part["choices"]:
            choices = zip(np.ravel(values), part["choices"], part["start"], strict=True)
            pieces += [np.arange(start, start + count) == value for value, count, start in choices]
        else:
            pieces.append(np.ravel(values))
    return np.concatenate(pieces).astype(np.float32)
