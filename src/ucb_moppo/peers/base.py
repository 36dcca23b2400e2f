"""What another method must offer to be trained, evaluated and compared like ours."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from ucb_moppo.config import PeerConfig
from ucb_moppo.engine.environments import MakeEnvs
from ucb_moppo.engine.learner import Snapshot
from ucb_moppo.spec import EnvSpec


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


class Peer(Protocol):
    """Another method at work on one problem."""

    def train(self) -> Generator[Counts, None, None]:
        """Train to the end. Yields the steps taken so far between updates, after every step or after a few; there
        it may be evaluated, or closed for good."""
        ...

    def snapshot(self) -> Snapshot:
        """Give what has been found so far; asked before training, between steps and at the end."""
        ...


@runtime_checkable
class ResumablePeer(Protocol):
    """A peer that can be saved between two steps: its ``train`` then goes on from where its state stands."""

    def get_state(self) -> dict[str, NDArray]:
        """Give everything needed to continue, as named arrays."""
        ...

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        ...


class MakePeer(Protocol):
    """Makes a peer for a problem from a config whose every setting is decided: what ``--method`` names.

    ``make_envs(num_envs, num_threads)`` makes its environments; ``weights`` [W, m] are those that a conditioned
    policy is evaluated on. It may have a ``check(spec, config)`` that refuses a run which could not be, without
    making anything, and a ``published(problem)`` that returns its settings, a frozen dataclass.
    """

    def __call__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> Peer: ...
