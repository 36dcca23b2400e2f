"""The outer loop of UCB-MOPPO; reads like the paper's Algorithm 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import Config
from ucb_moppo.engine.shard import NUM_CHANCES, Divergence
from ucb_moppo.errors import DivergenceError, RunFormatError
from ucb_moppo.objectives.pareto import cardinality, expected_utility, hypervolume, sparsity
from ucb_moppo.objectives.weights import Decomposition, even_weights, make_decomposition
from ucb_moppo.runtime.executor import Executor
from ucb_moppo.search.acquisition import HypervolumeScore
from ucb_moppo.search.methods import Method, SearchContext, Selection, make_method
from ucb_moppo.search.surrogate import BaggedElasticNet
from ucb_moppo.seeding import SELECTION
from ucb_moppo.spec import EnvSpec

PARTS = {"selecting": 0.0, "training": 0.0, "evaluating": 0.0}


@dataclass(frozen=True)
class Stage:
    """Iterations between two evaluations. ``search`` counts the stages since the warm-up; 0 is the warm-up."""

    index: int
    start: int
    iterations: int
    search: int


def make_schedule(num_iterations: int, warmup: int, stage_iterations: int) -> list[Stage]:
    """Stages of C iterations, a boundary always at the end of the warm-up and of the run."""
    stages: list[Stage] = []
    start = search = 0
    while start < num_iterations:
        limit = warmup if start < warmup else num_iterations
        length = min(stage_iterations, limit - start)
        search += start >= warmup
        stages.append(Stage(len(stages) + 1, start, length, search))
        start += length
    return stages


@dataclass
class StageRecord:
    """What one stage did and what the evaluation after it found."""

    stage: int
    iteration: int
    training_steps: int
    evaluation_steps: int
    seconds: float
    returns: NDArray
    """[K, P, m] of every policy on its probes: the same weights for every method."""
    indicators: dict[str, float]
    selected: NDArray | None = None
    """[K, N, m] the weights the stage trained on (the last draw of method `random`)."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    learning: dict[str, float] = field(default_factory=dict)
    stage_seconds: dict[str, float] = field(default_factory=dict)
    """Where this stage's time went, before an interruption and after: selecting weights, training, evaluating."""
    diverged: list[dict[str, Any]] = field(default_factory=list)
    """Every time a policy has diverged so far: policy, iteration, cause, and whether it was restored."""


def measure(returns: NDArray, reference_point: Sequence[float] | None) -> dict[str, float]:
    """HV, EU, sparsity and size of the front among returns [K, W, m]."""
    points = returns.reshape(-1, returns.shape[-1])
    assert reference_point is not None
    return {
        "hypervolume": hypervolume(points, reference_point),
        "expected_utility": expected_utility(points, even_weights(points.shape[-1])),
        "sparsity": sparsity(points),
        "cardinality": cardinality(points),
    }


def make_run_decomposition(config: Config, spec: EnvSpec, num_probes: int | None = None) -> Decomposition:
    """Pivots, candidates and probes of every policy, the same for each replica."""
    search = config.search
    assert search.policies is not None
    assert search.candidates is not None
    one = make_decomposition(
        spec.num_objectives,
        search.policies,
        search.candidates,
        num_probes or search.probes,
        pivots=search.pivots,
    )
    repeat = (search.replicas, 1, 1)
    return Decomposition(
        pivots=np.tile(one.pivots, repeat[:2]),
        candidates=np.tile(one.candidates, repeat),
        probes=np.tile(one.probes, repeat),
    )


class Trainer:
    """Trains all policies stage by stage, choosing each stage's weights from the evaluations before it.

    ``on_iteration`` is told the iteration wherever the state is whole: there it may be saved, or the run stopped.
    ``begun`` is when, by ``perf_counter``, its time began to count: compiling is part of it.
    """

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        executor: Executor,
        on_iteration: Callable[[int], None] = lambda iteration: None,
        begun: float | None = None,
    ) -> None:
        self.config, self.spec, self.executor, self.on_iteration = config, spec, executor, on_iteration
        self.decomposition = make_run_decomposition(config, spec)
        search = config.search
        assert config.reference_point is not None
        self.method: Method = make_method(
            config.method,
            surrogate=BaggedElasticNet(search.ensemble, search.surrogate_alpha, search.surrogate_l1_ratio),
            score=HypervolumeScore(config.reference_point),
            selection=search.selection,
        )
        self.history: list[NDArray] = []
        self.iteration = self.evaluation_steps = 0
        self._reports: list[dict[str, NDArray]] = []
        self._spent, self._begun = 0.0, perf_counter() if begun is None else begun
        self._parts = PARTS.copy()

    @property
    def seconds(self) -> float:
        """What the run has taken so far, before an interruption and after it."""
        return self._spent + perf_counter() - self._begun

    @property
    def finished(self) -> bool:
        return len(self.history) > len(self.stages())

    @property
    def evaluated_weights(self) -> NDArray:
        """[K, W, m]: what every stage evaluates. The last P are the probes, which the front is made of."""
        parts = self.decomposition
        if self.config.search.candidate_values == "simulate":
            return np.concatenate([parts.candidates, parts.probes], axis=1)
        return parts.probes

    def stages(self) -> list[Stage]:
        """The whole run's schedule."""
        search = self.config.search
        assert search.warmup is not None
        assert search.stage_iterations is not None
        return make_schedule(self.config.num_iterations, search.warmup, search.stage_iterations)

    def run(self) -> Iterator[StageRecord]:
        """Train; a record after the first evaluation and after every stage. Continues from where it stands."""
        if not self.history:
            yield self._evaluate(0, None)
        for stage in self.stages()[len(self.history) - 1 :]:
            selection = self._train(stage)
            yield self._evaluate(stage.index, selection)

    def evaluate_early(self) -> StageRecord:
        """What there is when a run ends inside a stage; the state has then left the schedule."""
        return self._evaluate(len(self.history), None)

    def _train(self, stage: Stage) -> Selection:
        """What is left of a stage, on weights chosen at its beginning (and again wherever they are redrawn).

        A choice depends on the evaluations and the seed alone, so a run that continues here makes it again.
        """
        for start, length in self._draws(stage):
            end = start + length
            if end <= self.iteration and end < stage.start + stage.iterations:
                continue
            with self._timed("selecting"):
                selection = self._select(stage, start)
            while self.iteration < end:
                self._train_part(selection.weights, min(self.executor.part_iterations, end - self.iteration))
        return selection

    def _train_part(self, weights: NDArray, num_iterations: int) -> None:
        """Iterations up to the next point at which the state is whole."""
        with self._timed("training"):
            self._reports.append(self.executor.train(weights, num_iterations))
        self.iteration += num_iterations
        self.on_iteration(self.iteration)

    def _draws(self, stage: Stage) -> list[tuple[int, int]]:
        """(first iteration, length) of each part of a stage that trains on the same weights."""
        every = self.config.search.resample_iterations
        if self.method.name != "random" or stage.search == 0 or not every:
            return [(stage.start, stage.iterations)]
        assert self.config.search.warmup is not None
        end = stage.start + stage.iterations
        first = stage.start + every - (stage.start - self.config.search.warmup) % every
        cuts = [stage.start, *range(first, end, every), end]
        return [(a, b - a) for a, b in pairwise(cuts)]

    def _select(self, stage: Stage, iteration: int) -> Selection:
        """Weights [K, N, m] to train on: the pivots during the warm-up, then what the method chooses."""
        search, parts = self.config.search, self.decomposition
        if stage.search == 0:
            return Selection(np.repeat(parts.pivots[:, None], search.active, axis=1), {})
        if self.method.name == "random" and search.resample_iterations:
            assert search.warmup is not None
            # The draw belongs to its period, so an evaluation in the middle of one does not change it.
            iteration -= (iteration - search.warmup) % search.resample_iterations
        context = SearchContext(
            pivots=parts.pivots,
            candidates=parts.candidates,
            evaluated_weights=self.evaluated_weights,
            values=np.stack(self.history),
            stage=stage.search,
            num_active=search.active,
            rng_seed=(self.config.seed, SELECTION, iteration),
            policy_ids=tuple(range(self.config.num_policies)),
        )
        return self.method.choose(context)

    def _evaluate(self, index: int, selection: Selection | None) -> StageRecord:
        """Evaluate every policy on its weights, extend the history and say what was found."""
        with self._timed("evaluating"):
            evaluation = self.executor.evaluate(self.evaluated_weights, self.config.episodes)
        parts, self._parts = self._parts, PARTS.copy()
        self.history.append(evaluation.returns)
        self.evaluation_steps += evaluation.steps
        learning, self._reports = mean_reports(self._reports), []
        diverged = describe_divergences(self.executor.divergences())
        if not np.isfinite(evaluation.returns).any():
            raise DivergenceError(
                f"every policy has diverged ({diverged}); lower --learning-rate or --max-grad-norm, or look at "
                f"the problem's rewards and observations"
            )
        returns = evaluation.returns[:, -self.config.search.probes :]
        return StageRecord(
            stage=index,
            iteration=self.iteration,
            training_steps=self.iteration * self.config.steps_per_iteration,
            evaluation_steps=self.evaluation_steps,
            seconds=self.seconds,
            returns=returns,
            indicators=measure(returns, self.config.reference_point),
            selected=None if selection is None else selection.weights,
            diagnostics={} if selection is None else self._with_error(selection.diagnostics),
            learning=learning,
            stage_seconds={name: round(seconds, 3) for name, seconds in parts.items()},
            diverged=diverged,
        )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self._parts[what] += perf_counter() - start

    def _with_error(self, diagnostics: dict[str, Any]) -> dict[str, Any]:
        """Add what the surrogate's prediction came to: mean absolute error per objective, against no change."""
        if "predicted" not in diagnostics:
            return diagnostics
        realised = self.history[-1] - self.history[-2]
        error = np.abs(np.asarray(diagnostics["predicted"]) - realised)
        return diagnostics | {
            "realised": realised.tolist(),
            "absolute_error": [mean_of_finite(error[..., j]) for j in range(error.shape[-1])],
            "absolute_change": [mean_of_finite(np.abs(realised[..., j])) for j in range(error.shape[-1])],
        }

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue, as named arrays. What is chosen next follows from it."""
        state = {f"executor.{name}": array for name, array in self.executor.get_state().items()}
        state |= {f"learning.{name}": array for name, array in join_reports(self._reports).items()}
        return state | {
            "history": np.array(self.history).reshape(-1, *self.evaluated_weights.shape),
            "iteration": np.array(self.iteration),
            "evaluation_steps": np.array(self.evaluation_steps),
            "seconds": np.array(self.seconds),
            "stage_seconds": np.array([self._parts[name] for name in PARTS]),
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit the config."""

        def under(prefix: str) -> dict[str, NDArray]:
            return {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}

        try:
            if state["history"].shape[1:] != self.evaluated_weights.shape:
                raise RunFormatError(
                    f"the saved evaluations have shape {state['history'].shape}; here every one of them has "
                    f"{self.evaluated_weights.shape}"
                )
            self.history = list(state["history"])
            self.iteration, self.evaluation_steps = int(state["iteration"]), int(state["evaluation_steps"])
            self._reports = [learning] if (learning := under("learning.")) else []
            self.executor.set_state(under("executor."))
            self._spent = float(state["seconds"])
            self._parts = PARTS | dict(zip(PARTS, map(float, state.get("stage_seconds", ())), strict=False))
        except (KeyError, IndexError, TypeError, ValueError) as fault:
            raise RunFormatError(f"the saved state does not fit this config: {fault!r}") from fault


def join_reports(reports: list[dict[str, NDArray]]) -> dict[str, NDArray]:
    """Reports [iterations, K] of several parts, one after the other."""
    return {name: np.concatenate([report[name] for report in reports]) for name in reports[0]} if reports else {}


def mean_reports(reports: list[dict[str, NDArray]]) -> dict[str, float]:
    """The mean of every reported number over iterations and policies."""
    joined = join_reports(reports)
    return {name: mean_of_finite(joined[name]) for name in sorted(joined)}


def mean_of_finite(values: NDArray) -> float:
    """The mean without what a diverged policy left; NaN if that is all there is."""
    finite = values[np.isfinite(values)]
    return float(np.mean(finite)) if finite.size else float("nan")


def describe_divergences(divergences: Sequence[Divergence]) -> list[dict[str, Any]]:
    """Plain data about every divergence, in order, with what was done about it."""
    described: list[dict[str, Any]] = []
    for divergence in sorted(divergences, key=lambda d: (d.iteration, d.policy)):
        before = sum(d["policy"] == divergence.policy for d in described)
        action = "restored" if before < NUM_CHANCES else "set aside"
        described.append(divergence._asdict() | {"action": action})
    return described
