"""A peer without a mind: takes steps it is told to take and shows what it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import PeerConfig
from ucb_moppo.engine.learner import Snapshot
from ucb_moppo.errors import ConfigError
from ucb_moppo.peers.base import Counts, MakeEnvs
from ucb_moppo.policy.networks import PAPER_NETWORK, Network
from ucb_moppo.spec import EnvSpec

NETWORK = Network("relu", 1, conditioned=False, residual=False, squash=True)


@dataclass(frozen=True)
class StubSettings:
    batch: int = 10
    """Steps between two yields."""
    pretraining: int = 0
    rate: float = 0.5
    layers: tuple[int, ...] = (3,)


def published(problem: str) -> StubSettings:
    return StubSettings(rate=0.25) if problem == "Swimmer-v2" else StubSettings()


def random_snapshot(spec: EnvSpec, num_policies: int) -> Snapshot:
    """Policies that do not depend on a weight, one more at every call."""
    rng, size, cells = np.random.default_rng(num_policies), spec.observation_size, 3
    shapes = {
        "actor.hidden1.kernel": (size, cells),
        "actor.hidden1.bias": (cells,),
        "actor.head.kernel": (cells, spec.action.size),
        "actor.head.bias": (spec.action.size,),
    }
    tensors = {name: rng.normal(size=(num_policies, *shape)) for name, shape in shapes.items()}
    tensors |= {"observation.mean": np.zeros((num_policies, size)), "observation.count": np.zeros(num_policies)}
    tensors["observation.variance"] = np.ones((num_policies, size))
    weights = rng.dirichlet(np.ones(spec.num_objectives), num_policies)[:, None]
    return Snapshot({n: a.astype(np.float32) for n, a in tensors.items()}, NETWORK, weights, 7 * num_policies)


class StubPeer:
    """Keeps one policy more at every look; or, if ``shown`` is set, always shows that."""

    shown: ClassVar[tuple[dict[str, NDArray], NDArray] | None] = None
    after_steps: ClassVar[Callable[[Counts], None]] = staticmethod(lambda counts: None)
    looks: ClassVar[list[Counts]] = []

    @staticmethod
    def check(spec: EnvSpec, config: PeerConfig) -> None:
        """Refuse fewer steps than one batch."""
        if config.steps < config.settings["batch"]:
            raise ConfigError(f"steps is {config.steps}, too few for the stub")

    def __init__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> None:
        self.spec, self.config, self.settings = spec, config, StubSettings(**config.settings)
        self.weights, self.counts, self.num_policies = weights, Counts(), 1
        type(self).looks = []

    def train(self) -> Iterator[Counts]:
        before = self.settings.pretraining
        while True:
            purpose = "pretraining" if self.counts.pretraining < before else "training"
            more: dict[str, Any] = {purpose: getattr(self.counts, purpose) + self.settings.batch}
            self.counts = self.counts._replace(**more, evaluation=self.counts.evaluation + 1)
            self.after_steps(self.counts)
            yield self.counts

    def snapshot(self) -> Snapshot:
        self.looks.append(self.counts)
        if self.shown is not None:
            return Snapshot(self.shown[0], PAPER_NETWORK, self.shown[1], 1)
        self.num_policies += 1
        return random_snapshot(self.spec, self.num_policies)


class ResumableStub(StubPeer):
    """The same, but what it has counted and kept can be saved."""

    def get_state(self) -> dict[str, NDArray]:
        return {"counts": np.array(self.counts), "num_policies": np.array(self.num_policies)}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        self.counts = Counts(*map(int, state["counts"]))
        self.num_policies = int(state["num_policies"])
