"""Training by hand: what ``make_trainer`` gives, with the front and the policies at any moment of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from ucb_moppo.engine.learner import Event, Iteration, Learner, Plan, Snapshot, StageRecord
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.utility import Goal
from ucb_moppo.policy.networks import Network
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.found import Found
from ucb_moppo.store.layout import FRONT
from ucb_moppo.store.storage import finite_or_none, parse_columns

if TYPE_CHECKING:
    from ucb_moppo.config import RunConfig


@dataclass(frozen=True, eq=False)
class Moment:
    """What an evaluation found, with the policies as they were then."""

    config: RunConfig
    spec: EnvSpec
    record: StageRecord
    snapshot: Snapshot

    @cached_property
    def table(self) -> dict[str, NDArray]:
        """The columns that a run would have in ``front.csv`` now."""
        from ucb_moppo.store.writer import front_csv  # a machine that deploys policies may have no moocore

        record, weights = self.record, self.snapshot.weights
        return parse_columns(front_csv(weights, record.returns, None, record.outcomes), Path(FRONT))

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """What a run would have in ``summary.json`` now."""
        from ucb_moppo.training.record import summarise  # which imports all that trains

        found: Mapping[str, Any] = finite_or_none(
            summarise(self.config, self.spec, self.snapshot, self.record, stopped=None)
        )
        return found


class SteppedTrainer(Found):
    """Trains as ``train`` would, an event at a time, and writes nothing. A ``with`` statement closes it.

    What it has found is what its last ``StageRecord`` told, as a ``Run`` shows it: the front, the policy for a
    preference, the figure. It stays as it is while training goes on, and after ``close``.
    """

    def __init__(self, learner: Learner, config: RunConfig, spec: EnvSpec) -> None:
        self.config = config
        """Every setting, decided."""
        self._learner, self._spec = learner, spec
        self._closed = False
        self._begun = False
        """Whether the method has been at work here, if only to evaluate something for itself."""
        self._events: Generator[Event, None, None] | None = None
        self._last: Moment | None = None

    def __repr__(self) -> str:
        state = "closed" if self._closed else "finished" if self.finished else "training"
        place = f"iteration {self.iteration} of {self.config.num_iterations}"
        given = f"{self.config.problem!r}, method={self.config.method!r}, seed={self.config.seed}"
        return f"SteppedTrainer({given}: {place}, {state})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- training ------------------------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """Iterations done so far."""
        return self._learner.iteration

    @property
    def num_evaluations(self) -> int:
        """Evaluations made so far."""
        return self._learner.num_evaluations

    @property
    def finished(self) -> bool:
        """Whether the last stage has been evaluated."""
        return self._learner.finished

    @property
    def resumable(self) -> bool:
        """Whether another trainer can continue from ``get_state()``."""
        return self._learner.resumable

    def plan(self) -> Plan:
        """Count what is to be done, and measure how long it takes where that can be told."""
        return self._open().plan()

    def run(self) -> Generator[Event, None, None]:
        """Train from where it stands to the end; every event is yielded before anything after it is done.

        A ``StageRecord`` comes before anything is trained and after every stage, an ``Iteration`` wherever some
        iterations are done and the state is whole, a ``Diverged`` before the record of the evaluation that showed
        it. Who leaves it at an ``Iteration`` or a ``StageRecord`` goes on from there with another ``run()``.
        """
        learner = self._open()
        if self._begun and not self.finished and not self.resumable:
            raise ConfigError(
                f"{self.config.method} cannot be continued where it was left, after step {self.iteration}: make "
                f"another trainer, and iterate over one run() to its end"
            )
        self._leave()
        self._events = learner.run()
        return self._follow(self._events)

    def _follow(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        with closing(events):
            for event in events:
                if isinstance(event, StageRecord):
                    self._keep(event)
                self._begun |= isinstance(event, Iteration)
                yield event
                self._open()

    def evaluate_early(self) -> StageRecord:
        """Evaluate what there is inside a stage; the state has then left the schedule."""
        record = self._open().evaluate_early()
        self._keep(record)
        return record

    def get_state(self) -> dict[str, NDArray]:
        """Give everything needed to continue, as named arrays; refused where the method cannot be continued."""
        return self._open().get_state()

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; what was found is told anew by the next ``StageRecord``."""
        self._open().set_state(state)
        self._last = None

    def close(self) -> None:
        """End its processes and environments. What it has found remains; closing it again does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._leave()
            finally:
                self._learner.close()

    def _leave(self) -> None:
        """End an iteration that was left where it stood: another's method may have a thread at work in it."""
        if self._events is not None:
            self._events.close()

    def _open(self) -> Learner:
        """Whoever trains; refused once it has been closed."""
        if self._closed:
            raise ConfigError(
                f"this trainer was closed after iteration {self.iteration}: make another with make_trainer, which "
                f"goes on from here with set_state(state) of a get_state() from before it was closed"
            )
        return self._learner

    # --- what was found ------------------------------------------------------------------------------------

    def _keep(self, record: StageRecord) -> None:
        """Keep what was found with a copy of the policies: those of the learner are changed in place."""
        snapshot = self._learner.snapshot()
        tensors = {name: array.copy() for name, array in snapshot.tensors.items()}
        self._last = Moment(self.config, self._spec, record, replace(snapshot, tensors=tensors))

    def _found(self) -> Moment:
        """What was found last; refused before the first evaluation."""
        if self._last is None:
            raise ConfigError(
                "this trainer has evaluated nothing yet: iterate over run() until it yields a StageRecord"
            )
        return self._last

    def snapshot(self) -> Snapshot:
        """Give the policies that are kept, with the weights that each is evaluated on."""
        return self._found().snapshot

    @property
    def spec(self) -> EnvSpec:
        """The problem that is trained on."""
        return self._spec

    @property
    def network(self) -> Network:
        """How the policies' tensors act."""
        return self._learner.network

    @property
    def goal(self) -> Goal:
        """What a preference means: a weighted sum, or another utility."""
        return self.config.make_goal(self._spec)

    @property
    def summary(self) -> Mapping[str, Any]:
        """What was found and what it cost, as a run has it in ``summary.json``."""
        return self._found().summary

    def table(self) -> dict[str, NDArray]:
        """A row per evaluated pair, as a run has it in ``front.csv``."""
        return self._found().table

    def tensors(self) -> dict[str, NDArray]:
        """Parameters and statistics of the policies that are kept, with a leading axis over them."""
        return self.snapshot().tensors

    @property
    def _table_path(self) -> Path:
        return Path(FRONT)
