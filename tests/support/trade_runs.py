"""Runs on ``probe/Trade-v0`` that pass through every part of the method, a second each once compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ucb_moppo

PROBLEM = "probe_envs:probe/Trade-v0"
"""Episodes of 5 steps, one observed number, one action in [-1, 1], two objectives."""

# 2 policies × 40 samples = 80 steps an iteration, so 400 steps are 5 iterations: 5 stages of 1, the first of
# them warm-up, with policies apart from the start. 6 evaluations (one before training) of 2 policies × 3 probes ×
# 5 steps = 180 evaluation steps.
SETTINGS: dict[str, Any] = {
    "layout": "static",
    "steps": 400,
    "policies": 2,
    "candidates": 8,
    "probes": 3,
    "episodes": 1,
    "held_out": 0,
    "stage_iterations": 1,
    "selection": "sequential",
    "active": 4,
    "samples": 40,
    "epochs": 2,
    "minibatch": 20,
    "cells": 8,
    "ensemble": 2,
}
NUM_STAGES, EVALUATION_STEPS = 5, 180


def train_trade(out: Path, problem: str = PROBLEM, **settings: Any) -> ucb_moppo.Run:
    """Train with ``SETTINGS`` into ``out``, in silence."""
    return ucb_moppo.train(problem, out=out, quiet=True, **SETTINGS | settings)


def trade_arguments(*extra: str) -> list[str]:
    """``train`` with ``SETTINGS`` on the command line."""
    options = [part for name, value in SETTINGS.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return ["train", PROBLEM, *options, *extra]
