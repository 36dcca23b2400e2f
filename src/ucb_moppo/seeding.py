"""Random streams. Each belongs to what it is for (a policy, an environment, an episode), never to a worker,
and is a pure function of the run's seed: nothing has to be saved to continue it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TRAINING, EVALUATION, SELECTION, ACTIONS, PEER, HELD_OUT, INTERVAL, FORECAST, STAGGER = range(1, 10)
EVALUATION_SEED = 20_250_101
"""Evaluation episodes start from the same states in every run, stage and method (common random numbers): those of
EVALUATION while anything is chosen by what they show, those of HELD_OUT for what is reported at the end, those of
FORECAST for what a policy will do that was chosen by these reports."""


def episode_seed(seed: int, stream: int, *index: int) -> int:
    """Seed of one episode, from the run's seed and e.g. (policy, environment, episode)."""
    return int(np.random.SeedSequence((seed, stream, *index)).generate_state(1)[0])


class EpisodeSeeds:
    """The seeds of a run's training episodes: `episode_seed` of (policy, environment, episode), many at a time.

    Where episodes are short and environments quick, asking numpy for each seed takes as long as a whole episode.
    """

    BLOCK, MAX_BLOCKS = 32, 64

    def __init__(self, seed: int, policies: Sequence[int], num_envs: int) -> None:
        """``num_envs`` environments for each of ``policies``."""
        self._seed, self._num_envs = seed, num_envs
        self._policies = np.repeat(np.asarray(policies, np.uint32), num_envs)[:, None]
        self._blocks: dict[int, NDArray[np.uint32]] = {}

    def of(self, environment: int, episode: int) -> int:
        """Seed of an environment's episode, both counted from 0, policy after policy."""
        block, place = divmod(episode, self.BLOCK)
        if block not in self._blocks:
            if len(self._blocks) == self.MAX_BLOCKS:  # most environments are past the first
                del self._blocks[min(self._blocks)]
            self._blocks[block] = self._make(block)
        return int(self._blocks[block][environment, place])

    def _make(self, block: int) -> NDArray[np.uint32]:
        """[environments, BLOCK] seeds."""
        environments = np.arange(len(self._policies), dtype=np.uint32)[:, None] % np.uint32(self._num_envs)
        episodes = np.arange(block * self.BLOCK, (block + 1) * self.BLOCK, dtype=np.uint32)
        words = (np.uint32(self._seed), np.uint32(TRAINING), self._policies, environments, episodes)
        return hash_words(np.broadcast_arrays(*words))


# Constants of numpy's SeedSequence, whose algorithm is documented to stay as it is (M. E. O'Neill's seed_seq).
_POOL = 4
_FIRST_IN, _NEXT_IN, _FIRST_OUT, _NEXT_OUT = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_ALL = 0xFFFFFFFF


def hash_words(words: Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """What ``SeedSequence(words).generate_state(1)`` gives, of arrays of words below 2³² instead of single ones."""
    constant = _FIRST_IN

    def stir(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
        nonlocal constant
        before, constant = np.uint32(constant), constant * _NEXT_IN & _ALL
        return _fold((values ^ before) * np.uint32(constant))

    nothing = np.zeros_like(words[0])
    pool = [stir(words[i] if i < len(words) else nothing) for i in range(_POOL)]
    for source in range(_POOL):
        for other in range(_POOL):
            if other != source:
                pool[other] = _mix(pool[other], stir(pool[source]))
    for word in words[_POOL:]:
        pool = [_mix(part, stir(word)) for part in pool]
    return _fold((pool[0] ^ np.uint32(_FIRST_OUT)) * np.uint32(_FIRST_OUT * _NEXT_OUT & _ALL))


def _mix(one: NDArray[np.uint32], other: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _fold(one * _LEFT - other * _RIGHT)


def _fold(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return values ^ (values >> np.uint32(16))
