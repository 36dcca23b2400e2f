"""Make the row that this policy sees, with what its episode has returned: act(extend(row, accrued, time))."""

import json
from pathlib import Path

import numpy as np

ACCRUED = json.loads((Path(__file__).resolve().parent / "policy.json").read_text(encoding="utf-8"))["accrued"]


def extend(row, accrued, time):
    """The row [d] of an observation, or of each of a batch, with the sum of the rewards and the steps so far."""
    rows = np.atleast_2d(np.asarray(row, np.float32))
    so_far = np.broadcast_to(np.divide(accrued, ACCRUED["scales"]), (len(rows), len(ACCRUED["scales"])))
    gone = np.broadcast_to(np.reshape(np.divide(time, ACCRUED["horizon"]), (-1, 1)), (len(rows), 1))
    extended = np.concatenate([rows, so_far, gone], axis=1).astype(np.float32)
    return extended if np.ndim(row) > 1 else extended[0]
