"""Random streams. Each belongs to what it is for (a policy, an environment, an episode), never to a worker,
and is a pure function of the run's seed: nothing has to be saved to continue it."""

from __future__ import annotations

import numpy as np

TRAINING, EVALUATION, SELECTION, ACTIONS, PEER, HELD_OUT, INTERVAL = 1, 2, 3, 4, 5, 6, 7
EVALUATION_SEED = 20_250_101
"""Evaluation episodes start from the same states in every run, stage and method (common random numbers): those of
EVALUATION while anything is chosen by what they show, those of HELD_OUT for what is reported at the end."""


def episode_seed(seed: int, stream: int, *index: int) -> int:
    """Seed of one episode, from the run's seed and e.g. (policy, environment, episode)."""
    return int(np.random.SeedSequence((seed, stream, *index)).generate_state(1)[0])
