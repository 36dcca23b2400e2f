"""Environments of a run's problem, as its config sets it up."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from ucb_moppo.config import RunConfig
from ucb_moppo.envs import make_batch
from ucb_moppo.envs.accrued import AccruedBatch
from ucb_moppo.envs.base import BatchEnv


class MakeEnvs(Protocol):
    """Makes ``num_envs`` environments of the problem that is trained on."""

    def __call__(self, num_envs: int, num_threads: int = 1) -> BatchEnv: ...


def environments_of(config: RunConfig) -> MakeEnvs:
    """A factory of environments of a run's problem, for training and for evaluations."""
    make = partial(
        make_batch,
        config.problem,
        horizon=config.horizon,
        reference_point=config.reference_point,
        protocol=config.protocol,
    )
    return partial(make_accrued, make, config.accrued_scales) if config.accrued_scales else make


def make_accrued(make: MakeEnvs, scales: tuple[float, ...], num_envs: int, num_threads: int = 1) -> BatchEnv:
    """Environments that show what has accrued, for policies that a utility is taken of each episode for."""
    return AccruedBatch(make(num_envs=num_envs, num_threads=num_threads), scales)
