"""What another method must offer to be trained, evaluated and compared like ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from ucb_moppo.config import PresetName
from ucb_moppo.envs import make_batch
from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import ConfigError
from ucb_moppo.policy.networks import Network


class Counts(NamedTuple):
    """Environment steps so far, all of them."""

    training: int = 0
    pretraining: int = 0
    evaluation: int = 0
    """What the peer itself evaluated as a part of its method."""

    @property
    def budgeted(self) -> int:
        """What counts against ``steps``: training and pre-training."""
        return self.training + self.pretraining


@dataclass(frozen=True)
class Snapshot:
    """What a peer has found at one moment: K policies to deploy."""

    tensors: dict[str, NDArray]
    """float32 with a leading axis K: actor.hidden1.kernel … actor.head.bias (and actor.log_std where the actor has
    one), observation.mean, .variance, .count (a count of 0 leaves observations as they are)."""
    network: Network
    """How the tensors act."""
    weights: NDArray
    """[K, W, m] the weights to evaluate each policy on: for a conditioned one, all that the peer was made with."""
    num_parameters: int
    """All that the method keeps, critics included."""


class Peer(Protocol):
    """Another method at work on one problem."""

    def train(self, on_steps: Callable[[Counts], None]) -> None:
        """Train to the end. Calls ``on_steps`` between updates, after every step or after a few; it may raise."""
        ...

    def snapshot(self) -> Snapshot:
        """What has been found so far; asked before training, inside ``on_steps`` and at the end."""
        ...


class MakeEnvs(Protocol):
    """Makes ``num_envs`` environments of the problem that is trained on."""

    def __call__(self, num_envs: int, num_threads: int = 1) -> BatchEnv: ...


@dataclass(frozen=True)
class PeerConfig:
    """A whole run of a peer. What is None is decided from the problem before a peer is made."""

    problem: str
    method: str
    seed: int = 0
    steps: int = 5_000_000
    """Budget of training and pre-training together, in environment steps."""
    horizon: int | None = None
    reference_point: tuple[float, ...] | None = None
    protocol: str = "gymnasium"
    """Whose models, resets and endings the six problems have."""
    episodes: int = 1
    """Episodes per weight in our evaluations."""
    preset: PresetName = "tuned"
    """Preset of the run of ours to compare with, whose policies and probes are the next two."""
    policies: int | None = None
    """Sub-spaces of the weights in our evaluations."""
    probes: int | None = None
    """Weights of each sub-space in our evaluations."""
    evaluations: int | None = None
    """Our evaluations after the first, evenly spaced over the steps (default: as many as a run of ours makes)."""
    threads: int = 0
    """Threads of simulation and of torch (0: one per core)."""
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The method's own settings, all of them: published ones under those that were given."""

    def __post_init__(self) -> None:
        for name in ("steps", "episodes", "horizon", "policies", "probes", "evaluations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed is {self.seed}; it must lie in [0, 2**32)")
        if self.threads < 0:
            raise ConfigError(f"threads is {self.threads}; it must not be negative")

    @property
    def num_iterations(self) -> int:
        """Progress is counted in steps."""
        return self.steps

    @property
    def steps_per_iteration(self) -> int:
        return 1

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``config.json``."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"settings": dict(self.settings)}

    def make_envs(self) -> MakeEnvs:
        """A factory of environments of this problem, for training and for the peer's own evaluations."""
        return partial(
            make_batch,
            self.problem,
            horizon=self.horizon,
            reference_point=self.reference_point,
            protocol=self.protocol,
        )
