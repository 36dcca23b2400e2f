"""Random streams of an environment other than its own generator, so that its seed tells all.

Some environments draw from numpy's global generator (minecart's ore), from Python's (four-room's start) or from
their spaces. While an environment of a batch runs, these are its own, seeded at its reset; afterwards whoever else
uses them finds them as they were.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.random import mtrand


@contextmanager
def global_streams_kept() -> Iterator[None]:
    """Put numpy's and Python's global generators back to what they were before."""
    bits, state = mtrand.get_bit_generator(), random.getstate()
    try:
        yield
    finally:
        mtrand.set_bit_generator(bits)
        random.setstate(state)


@contextmanager
def made_alike() -> Iterator[None]:
    """Make environments that draw global random numbers at their making the same every time."""
    with global_streams_kept():
        mtrand.set_bit_generator(np.random.MT19937(0))
        random.seed(0)
        yield


class Streams:
    """The streams of several environments; ``begin`` and ``enter`` are called inside ``lent``."""

    def __init__(self, envs: Sequence[gymnasium.Env]) -> None:
        self._bits = [np.random.MT19937(0) for _ in envs]
        # Spaces sample from the same bits: seeding each of them at a reset would take longer than many an episode.
        self._generators = [np.random.Generator(bits) for bits in self._bits]
        self._spaces = [[*simple_spaces(env.action_space), *simple_spaces(env.observation_space)] for env in envs]
        self._seeds = [0] * len(envs)
        draws = python_draws(envs[0])
        self._python, self._python_at_steps = bool(draws), bool(draws - {"__init__", "reset"})

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the environments numpy's global generator, and Python's if they use it."""
        if self._python:
            with global_streams_kept():
                yield
            return
        bits = mtrand.get_bit_generator()
        try:
            yield
        finally:
            mtrand.set_bit_generator(bits)

    def begin(self, env: int, seed: int) -> None:
        """Seed an environment's streams before its reset."""
        self._seeds[env] = seed
        self.enter(env, 0)
        if self._python:
            random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002  (the environment draws from it, not we)

    def enter(self, env: int, elapsed: int) -> None:
        """Make an environment's streams the current ones, before its step number ``elapsed`` + 1."""
        mtrand.set_bit_generator(self._bits[env])
        for space in self._spaces[env]:
            space._np_random = self._generators[env]
        if self._python_at_steps:
            # Far cheaper than to keep the state of Python's generator from step to step.
            random.seed((self._seeds[env] << 32) + elapsed)


def simple_spaces(space: spaces.Space) -> Iterator[spaces.Space]:
    """The space itself and all spaces in it."""
    yield space
    inner = getattr(space, "spaces", ())
    for part in inner.values() if isinstance(inner, dict) else inner:
        yield from simple_spaces(part)


def python_draws(env: gymnasium.Env) -> set[str]:
    """Names of the functions, of the environment's class and its module, that use Python's ``random``."""
    found = set()
    for kind in type(env.unwrapped).__mro__:
        module = vars(sys.modules.get(kind.__module__, random))
        names = {name for name, value in module.items() if value is random or _is_bound_to_random(value)}
        for name, function in {**module, **vars(kind)}.items():
            if names.intersection(getattr(getattr(function, "__code__", None), "co_names", ())):
                found.add(name)
    return found


def _is_bound_to_random(value: object) -> bool:
    """Whether it is ``random.choice`` or the like, imported by its name."""
    return getattr(value, "__self__", None) is random.random.__self__  # type: ignore[attr-defined]
