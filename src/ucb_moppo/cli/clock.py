"""Where a run stands, in words: what it is about to do, how fast it is, what it has found and what is left."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from ucb_moppo.config import RunConfig
from ucb_moppo.engine.learner import Plan, StageRecord
from ucb_moppo.store.records import describe_hypervolume
from ucb_moppo.training.reporter import count_of, format_seconds


def describe_plan(config: RunConfig, plan: Plan, path: Path) -> str:
    """Two sentences before a run begins."""
    policies = "" if plan.num_policies is None else f"{count_of(plan.num_policies, 'policy', 'policies')}, "
    begin = f"continuing after iteration {plan.done}: " if plan.done else ""
    return (
        f"{begin}{config.method} on {config.problem}: {policies}seed {config.seed}, "
        f"{count_of(plan.num_stages, 'stage', 'stages')}, writing to {path}\n{describe_cost(plan)}"
    )


def describe_cost(plan: Plan) -> str:
    """Steps and time; of another method neither its own evaluations nor its speed is known beforehand."""
    if plan.evaluation_steps is None or plan.seconds is None:
        return f"{plan.training_steps:,} steps of training and pre-training"
    return (
        f"{plan.training_steps:,} training steps and up to {plan.evaluation_steps:,} evaluation steps; "
        f"about {format_seconds(plan.seconds)} {'left ' if plan.done else ''}at the speed measured here"
    )


def describe_stage(record: StageRecord) -> str:
    """HV and EU as they stand."""
    found = record.indicators
    return f"{describe_hypervolume(found)}  EU {found['expected_utility']:.4g}"


class Clock:
    """Steps per second and time left, from what the run itself has taken so far."""

    def start(self, plan: Plan) -> None:
        self.plan, self.begun = plan, perf_counter()

    def rate(self, iteration: int) -> float:
        done = iteration - self.plan.done
        steps_per_iteration = self.plan.training_steps / self.plan.num_iterations
        return done * steps_per_iteration / (perf_counter() - self.begun)

    def left(self, iteration: int) -> float:
        """From the measured plan until there is something better: the run's own pace."""
        share = (iteration - self.plan.done) / (self.plan.num_iterations - self.plan.done or 1)
        spent = perf_counter() - self.begun
        if self.plan.seconds is not None and share < 0.05:
            return self.plan.seconds * (1 - share)
        return spent * (1 - share) / share if share else 0.0
