"""How a run ends: its front on as many weights as are affordable, measured on episodes of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from ucb_moppo.config import RunConfig
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.evaluation import Evaluation, evaluate_apart
from ucb_moppo.engine.held_out import HeldOut, evaluate_held_out
from ucb_moppo.engine.learner import Snapshot, StageRecord
from ucb_moppo.engine.probes import spread_weights
from ucb_moppo.engine.second_look import look_again
from ucb_moppo.objectives.indicators import measure
from ucb_moppo.policy.actors import actors_from_tensors
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.writer import Reported, front_csv

MAX_WEIGHTS, MAX_WEIGHTS_IN_ALL = 25, 200
"""Weights of a sub-space, and of all of them, that the front of a finished run is chosen from."""
SHARE = 0.25
"""All evaluation of ours that anything is chosen by takes less than this share of the training steps."""
BREADTH, SAFE = 2 / 3, 0.95
"""Of what stages have left of it, the part that more weights may take; the rest is for a second look at the front.
Not quite all is planned with: episodes are not as long as the last ones were."""
LONGER = 1.25
"""Who is on the front may live so much longer than others."""


@dataclass(frozen=True, eq=False)
class Ending:
    """The front that a run ends with."""

    weights: NDArray
    """[K, W, m] what it was chosen from,"""
    returns: NDArray
    """[K, W, m] by these values,"""
    selection: dict[str, float]
    """which have these indicators."""
    held_out: HeldOut
    steps: int
    """Of evaluating these weights, if stages have not, of trying how long episodes are and of looking again."""
    spare: int = 0
    """Episodes that a second look could take,"""
    more: int = 0
    """and how many it took of everybody who was on the front."""
    outcomes: NDArray | None = None
    """[K, W, E, m] what a utility that is not linear is taken of."""

    def front(self) -> bytes:
        """Give the table of the front."""
        return front_csv(self.weights, self.returns, reported_by(self.held_out), self.outcomes)

    def describe(self) -> dict[str, Any]:
        """Give plain data for the summary."""
        return {
            "episodes": self.held_out.episodes,
            "steps": self.held_out.steps,
            "spare_episodes": self.spare,
            "second_look_episodes": self.more,
            "intervals": {name: list(bounds) for name, bounds in self.held_out.intervals.items()},
            "selection": self.selection,
        }


def reported_by(held_out: HeldOut) -> Reported:
    """What a table of the front says of it."""
    return Reported(held_out.members, held_out.returns, held_out.errors)


def measure_ending(config: RunConfig, spec: EnvSpec, snapshot: Snapshot, record: StageRecord) -> Ending | None:
    """Choose the front that a run ends with and measure it, if that is asked for."""
    if not config.held_out:
        return None

    make = partial(environments_of(config), num_threads=config.threads)
    weights, returns, outcomes = snapshot.weights, record.returns, record.outcomes
    goal, actors = config.make_goal(spec), actors_from_tensors(snapshot.tensors, snapshot.network)
    count, steps, length = affordable_weights(config, snapshot, record), 0, record.episode_steps
    if count > num_probes(config, snapshot) and record.episode_steps < spec.horizon:
        tried = evaluate_apart(actors, weights, make, 1, sampled=config.sampled)
        count, steps, length = affordable_weights(config, snapshot, record, tried), tried.steps, tried.episode_steps
    if count > num_probes(config, snapshot):
        weights = spread_weights(config.division, spec.num_objectives, len(snapshot.weights), count)
        finer = evaluate_apart(
            actors, weights, make, config.episodes, sampled=config.sampled, discount=config.evaluation_discount
        )
        returns, steps = finer.returns, steps + finer.steps
        outcomes = None if goal.is_linear else goal.outcomes(finer.episodes)
        length = finer.episode_steps
    spare = spare_episodes(config, record, steps, min(LONGER * length, spec.horizon)) if goal.is_linear else 0
    again = look_again(
        snapshot.tensors,
        snapshot.network,
        weights,
        returns,
        make,
        seen=config.episodes,
        spare=spare,
        discount=config.evaluation_discount,
        sampled=config.sampled,
    )
    returns, steps = again.returns, steps + again.steps
    held_out = evaluate_held_out(
        snapshot.tensors,
        snapshot.network,
        weights,
        returns,
        make,
        episodes=config.held_out,
        reference_point=spec.reference_point,
        extra=config.indicators,
        discount=config.evaluation_discount,
        divisions=config.utility_divisions,
        goal=goal,
        outcomes=outcomes,
        sampled=config.sampled,
    )
    found = measure(returns, spec.reference_point, config.utility_divisions, goal, outcomes)
    return Ending(weights, returns, found, held_out, steps, spare, again.episodes, outcomes)


def num_subspaces(config: RunConfig) -> int:
    """Sub-spaces of the weights that a run is evaluated on, replicas included."""
    return config.division.policies * config.division.replicas


def num_probes(config: RunConfig, snapshot: Snapshot) -> int:
    """Weights of each sub-space that stages have evaluated."""
    return snapshot.weights.shape[0] * snapshot.weights.shape[1] // num_subspaces(config)


def affordable_weights(
    config: RunConfig, snapshot: Snapshot, record: StageRecord, tried: Evaluation | None = None
) -> int:
    """Weights of each sub-space that the front can be chosen from, by how long episodes are now.

    What is kept may live longer than what is trained: an episode of each, ``tried`` where they end early, tells.
    As many for every method whose episodes are as long: pre-training is part of the budget, and what a method
    evaluates for itself is its own. 0 where policies do not depend on a weight.
    """
    subspaces = num_subspaces(config)
    if not snapshot.network.conditioned or len(snapshot.weights) not in (1, subspaces):
        return 0
    left = BREADTH * steps_left(config, record) - (0 if tried is None else tried.steps)
    length = record.episode_steps if tried is None else max(record.episode_steps, tried.episode_steps)
    per_weight = subspaces * config.episodes * max(1.0, length)
    return min(MAX_WEIGHTS, MAX_WEIGHTS_IN_ALL // subspaces, int(SAFE * left / per_weight))


def steps_left(config: RunConfig, record: StageRecord) -> float:
    """What stages have left of the share of steps that evaluation may take."""
    counts = record.method_counts
    trained = record.training_steps + counts.get("pretraining_steps", 0)
    evaluated = record.evaluation_steps - counts.get("peer_evaluation_steps", 0)
    return SHARE * min(trained, config.steps) - evaluated


def spare_episodes(config: RunConfig, record: StageRecord, steps: int, length: float) -> int:
    """Episodes of that ``length`` for a second look at the front, once ``steps`` more have been taken."""
    return max(0, int(SAFE * (steps_left(config, record) - steps) / max(1.0, length)))
