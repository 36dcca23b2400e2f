"""The outer loop of UCB-MOPPO; reads like the paper's Algorithm 3."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ucb_moppo.algos.algorithms import make_algorithm
from ucb_moppo.algos.stacked import arrays_under
from ucb_moppo.config import MoppoConfig
from ucb_moppo.cores import one_blas_thread
from ucb_moppo.engine.archive import Archive
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.learner import Diverged, Event, Iteration, Plan, Snapshot, StageRecord
from ucb_moppo.engine.population import NUM_CHANCES, Divergence, by_policy, by_subspace
from ucb_moppo.engine.probes import make_run_decomposition
from ucb_moppo.engine.shard import Timing
from ucb_moppo.errors import DivergenceError, RunFormatError
from ucb_moppo.objectives.indicators import measure, measure_with
from ucb_moppo.objectives.weights import subspace_width
from ucb_moppo.search.methods import Method, SearchContext, Selection, choose_pivot, choose_random, make_method
from ucb_moppo.search.situations import training_density
from ucb_moppo.seeding import SELECTION
from ucb_moppo.spec import EnvSpec

NORMAL_95 = 1.96
STAGE_TIMES = {"selecting": 0.0, "training": 0.0, "evaluating": 0.0}


class Executor(Protocol):
    """Trains and evaluates all policies of a run, wherever they are."""

    part_iterations: int
    """Iterations to train at a time. Between two parts the whole state can be saved and the run can stop."""

    def train(self, weights: NDArray) -> dict[str, NDArray]:
        """Train an iteration on each of weights [I, K, N, m]; what the updates reported, [I, policies] each."""
        ...

    def part(self) -> None:
        """Give every sub-space a policy of its own, if policies are shared."""
        ...

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        """Returns of every policy under its weights [K, W, m]; NaN for a policy that has diverged."""
        ...

    def divergences(self) -> list[Divergence]:
        """Every time a policy has diverged so far."""
        ...

    def policies(self) -> dict[str, NDArray]:
        """Parameters and statistics of the policies for the K sub-spaces, a row each."""
        ...

    def time_iteration(self) -> Timing:
        """How long an iteration and an environment step take here, measured."""
        ...

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue."""
        ...

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned: the next iterations are the same to the bit."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Stage:
    """Iterations between two evaluations. ``search`` counts the stages since the warm-up; 0 is the warm-up."""

    index: int
    start: int
    iterations: int
    search: int


def make_schedule(boundaries: Sequence[int], warmup: int, stage_iterations: int) -> list[Stage]:
    """Stages of C iterations or less, from one of the ``boundaries`` to the next; the first is 0."""
    stages: list[Stage] = []
    search = 0
    for begin, end in pairwise(boundaries):
        for start in range(begin, end, stage_iterations):
            search += start >= warmup
            stages.append(Stage(len(stages) + 1, start, min(stage_iterations, end - start), search))
    return stages


class Choices:
    """The last choice of weights, made again only for another iteration."""

    def __init__(self, choose: Callable[[int], Selection]) -> None:
        self._choose, self._iteration = choose, -1

    def of(self, iteration: int) -> Selection:
        if iteration != self._iteration:
            self._iteration, self._last = iteration, self._choose(iteration)
        return self._last


class Trainer:
    """Trains all policies stage by stage, choosing each stage's weights from the evaluations before it.

    ``begun`` is when, by ``perf_counter``, its time began to count: compiling is part of it.
    """

    resumable = True

    def __init__(self, config: MoppoConfig, spec: EnvSpec, executor: Executor, begun: float | None = None) -> None:
        self.config, self.spec, self.executor = config, spec, executor
        self.network = make_algorithm(config.ppo, config.num_iterations).network
        self.decomposition = make_run_decomposition(config, spec)
        self.goal = config.make_goal(spec)
        self.method: Method = make_method(config.method, config.search, config.reference_point, self.goal)
        self.history: list[NDArray] = []
        self.density: list[NDArray] = []
        """[K, P] of every stage: how densely it trained near the evaluated weights."""
        self._density = np.zeros(self.evaluated_weights.shape[:2])
        """[K, P] the same of the stage that is being trained, summed over its iterations."""
        self.kept = Archive(config.reference_point, self.goal)
        self.iteration = self.evaluation_steps = 0
        self._reports: list[dict[str, NDArray]] = []
        self._spent, self._begun = 0.0, perf_counter() if begun is None else begun
        self._stage_times = STAGE_TIMES.copy()
        self._num_told = 0

    @property
    def seconds(self) -> float:
        """What the run has taken so far, before an interruption and after it."""
        return self._spent + perf_counter() - self._begun

    @property
    def num_evaluations(self) -> int:
        return len(self.history)

    @property
    def finished(self) -> bool:
        return len(self.history) > len(self.stages())

    @property
    def evaluated_weights(self) -> NDArray:
        """[K, W, m]: what every stage evaluates. The last P are the probes, which the front is made of."""
        weights = self.decomposition
        if self.config.search.candidate_values == "simulate":
            return np.concatenate([weights.candidates, weights.probes], axis=1)
        return weights.probes

    def stages(self) -> list[Stage]:
        """The whole run's schedule."""
        search = self.config.search
        return make_schedule(self.config.boundaries, search.warmup, search.stage_iterations)

    def plan(self) -> Plan:
        """Count the steps of the run and measure about how long they take here."""
        config, num_stages = self.config, len(self.stages())
        num_policies, num_weights = self.evaluated_weights.shape[:2]
        steps_per_evaluation = num_policies * num_weights * config.episodes * config.horizon
        timing = self.executor.time_iteration()
        steps_left = steps_per_evaluation * (num_stages + 1 - len(self.history))
        return Plan(
            num_iterations=config.num_iterations,
            num_stages=num_stages,
            training_steps=config.num_iterations * config.steps_per_iteration,
            num_policies=config.num_subspaces,
            evaluation_steps=steps_per_evaluation * (num_stages + 1),
            seconds=(config.num_iterations - self.iteration) * timing.iteration + steps_left * timing.step,
            done=self.iteration,
        )

    def run(self) -> Generator[Event, None, None]:
        """Train from where it stands: an event after every part of a stage, every evaluation and divergence."""
        self._num_told = len(self.executor.divergences())
        if not self.history:
            yield from self._end_stage(0, None)
        for stage in self.stages()[len(self.history) - 1 :]:
            selection = yield from self._train(stage)
            self.density.append(self._density / stage.iterations)
            self._density = np.zeros(self._density.shape)
            yield from self._end_stage(stage.index, selection)

    def _end_stage(self, index: int, selection: Selection | None) -> Iterator[StageRecord | Diverged]:
        """Evaluate after a stage; tell which policies have diverged since the last one, then what was found."""
        record = self._evaluate(index, selection)
        news, self._num_told = record.diverged[self._num_told :], len(record.diverged)
        for event in news:
            yield Diverged(**event)
        yield record

    def evaluate_early(self) -> StageRecord:
        """Evaluate what there is when a run ends inside a stage; the state has then left the schedule."""
        return self._evaluate(len(self.history), None)

    def snapshot(self) -> Snapshot:
        """Give the policies that are kept, one a sub-space."""
        tensors = self.kept.tensors
        num_parameters = sum(a.size for name, a in tensors.items() if name.split(".")[0] in ("actor", "critic"))
        return Snapshot(tensors, self.network, self.decomposition.probes, num_parameters)

    def close(self) -> None:
        """End the workers."""
        self.executor.close()

    def _train(self, stage: Stage) -> Generator[Iteration, None, Selection]:
        """Train what is left of a stage, on weights chosen at its beginning (and again wherever they are redrawn).

        A choice depends on the evaluations and the seed alone, so a run that continues here makes it again.
        """
        end = stage.start + stage.iterations
        if stage.start >= self.config.shared_iterations:
            self.executor.part()
        choices = Choices(partial(self._select, stage))
        while self.iteration < end:
            iterations = range(self.iteration, min(self.iteration + self.executor.part_iterations, end))
            with self._timed("selecting"):
                weights = np.stack([self._weights(stage, choices, i) for i in iterations])
            with self._timed("training"):
                self._reports.append(self.executor.train(weights))
            for row in weights:  # one by one: how many make a part depends on the clock, and sums on their order
                self._density += self._density_of(stage, row)
            self.iteration += len(iterations)
            yield Iteration(self.iteration)
        return choices.of(self._chosen_at(stage, end - 1))

    def _weights(self, stage: Stage, choices: Choices, iteration: int) -> NDArray:
        """Weights [K, N, m] of an iteration: those chosen, handed on to the next environment every period."""
        chosen = choices.of(self._chosen_at(stage, iteration)).weights
        turn = iteration // self.config.search.resample_iterations if self.config.shared_iterations else 0
        return by_subspace(np.roll(by_policy(chosen, self._group(stage), 0), turn, axis=1), self._group(stage), 0)

    def _group(self, stage: Stage) -> int:
        """Neighbouring sub-spaces that share a policy in a stage."""
        return self.config.search.policies if stage.start < self.config.shared_iterations else 1

    def _density_of(self, stage: Stage, weights: NDArray) -> NDArray:
        """How densely an iteration on ``weights`` [K, N, m] trains near the evaluated weights, [K, P]."""
        width = subspace_width(self.decomposition.pivots) / 2
        return training_density(weights, self.evaluated_weights, width, self._group(stage))

    def _rates(self) -> NDArray:
        """The learning rate of the stage after each evaluation, as a share of the first."""
        if not self.config.ppo.decay:
            return np.ones(len(self.history))
        middles = [stage.start + stage.iterations / 2 for stage in self.stages()[: len(self.history)]]
        return np.array([1 - middle / self.config.num_iterations for middle in middles])

    def _chosen_at(self, stage: Stage, iteration: int) -> int:
        """The iteration at which the weights of another one in its stage are chosen."""
        search, shared = self.config.search, self.config.shared_iterations
        # A draw belongs to its period, so an evaluation in the middle of one does not change it.
        if shared and not stage.search:
            return iteration - iteration % search.resample_iterations
        if stage.search and self.method.redraws:
            return iteration - (iteration - search.warmup) % search.resample_iterations
        return stage.start

    def _select(self, stage: Stage, iteration: int) -> Selection:
        """Weights [K, N, m] to train on: drawn at random for a policy that is shared, the pivots during the warm-up
        of those that are apart, then what the method chooses."""
        search, weights = self.config.search, self.decomposition
        context = SearchContext(
            pivots=weights.pivots,
            candidates=weights.candidates,
            evaluated_weights=self.evaluated_weights,
            values=np.stack(self.history),
            front=np.array(self.kept.returns).reshape(-1, self.spec.num_objectives),
            density=np.array(self.density).reshape(-1, *self.evaluated_weights.shape[:2]),
            rates=self._rates(),
            stage=max(1, stage.search),
            num_active=search.active,
            rng_seed=(self.config.seed, SELECTION, iteration),
            group=self._group(stage),
        )
        if stage.search:
            with one_blas_thread():
                return self.method.choose(context)
        return choose_random(context) if self.config.shared_iterations else choose_pivot(context)

    def _evaluate(self, index: int, selection: Selection | None) -> StageRecord:
        """Evaluate every policy on its weights, extend the history and say what was found."""
        config = self.config
        with self._timed("evaluating"):
            evaluation = self.executor.evaluate(self.evaluated_weights, config.episodes)
        times, self._stage_times = self._stage_times, STAGE_TIMES.copy()
        self.history.append(evaluation.returns)
        self.evaluation_steps += evaluation.steps
        learning, self._reports = mean_reports(self._reports), []
        diverged = describe_divergences(self.executor.divergences())
        if not np.isfinite(evaluation.returns).any():
            raise DivergenceError(
                f"every policy has diverged ({diverged}); lower --learning-rate or --max-grad-norm, or look at "
                f"the problem's rewards and observations"
            )
        probed, outcomes = slice(-config.search.probes, None), None
        if not self.goal.is_linear:
            outcomes = self.goal.outcomes(evaluation.episodes[:, probed])
        self.kept.take(evaluation.returns[:, probed], self.executor.policies(), outcomes)
        returns, divisions = np.array(self.kept.returns), config.utility_divisions
        return StageRecord(
            stage=index,
            iteration=self.iteration,
            training_steps=self.iteration * config.steps_per_iteration,
            evaluation_steps=self.evaluation_steps,
            seconds=self.seconds,
            returns=returns,
            outcomes=None if self.kept.outcomes is None else self.kept.outcomes.copy(),
            indicators=measure(returns, config.reference_point, divisions, self.goal, self.kept.outcomes),
            episode_steps=evaluation.episode_steps,
            finished=self.iteration == config.num_iterations,
            selected=None if selection is None else selection.weights,
            diagnostics={} if selection is None else self._with_error(selection.diagnostics),
            learning=learning,
            stage_seconds={name: round(seconds, 3) for name, seconds in times.items()},
            diverged=diverged,
            extra_indicators=measure_with(config.indicators, returns, config.reference_point),
        )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self._stage_times[what] += perf_counter() - start

    def _with_error(self, diagnostics: dict[str, Any]) -> dict[str, Any]:
        """Add what the surrogate's prediction came to: its error, how it ranks gains, what its intervals cover."""
        if "predicted" not in diagnostics:
            return diagnostics
        realised = self.history[-1] - self.history[-2]
        predicted, sigma = np.asarray(diagnostics["predicted"]), np.asarray(diagnostics["sigma"])
        error = np.abs(predicted - realised)
        return diagnostics | {
            "rank_correlation": rank_correlation(*self._gains(predicted, realised)),
            "coverage": mean_of_finite(np.where(np.isfinite(error), error <= NORMAL_95 * sigma, np.nan)),
            "realised": realised.tolist(),
            "absolute_error": [mean_of_finite(error[..., j]) for j in range(error.shape[-1])],
            "absolute_change": [mean_of_finite(np.abs(realised[..., j])) for j in range(error.shape[-1])],
        }

    def _gains(self, predicted: NDArray, realised: NDArray) -> tuple[NDArray, NDArray]:
        """What changes [K, W, m] that were foreseen and that came about add to the utility, [K, W] each."""
        weights, before = self.evaluated_weights, self.history[-2]
        if self.goal.is_linear:
            return (weights * predicted).sum(-1), (weights * realised).sum(-1)
        utility = self.goal.utility
        base = utility(before, weights)
        return utility(before + predicted, weights) - base, utility(before + realised, weights) - base

    def get_state(self) -> dict[str, NDArray]:
        """Give everything needed to continue, as named arrays. What is chosen next follows from it."""
        state = {f"executor.{name}": array for name, array in self.executor.get_state().items()}
        state |= {f"learning.{name}": array for name, array in join_reports(self._reports).items()}
        state |= {f"kept.{name}": array for name, array in self.kept.get_state().items()}
        return state | {
            "history": np.array(self.history).reshape(-1, *self.evaluated_weights.shape),
            "density": np.array(self.density).reshape(-1, *self._density.shape),
            "density_now": self._density.copy(),
            "iteration": np.array(self.iteration),
            "evaluation_steps": np.array(self.evaluation_steps),
            "seconds": np.array(self.seconds),
            "stage_seconds": np.array([self._stage_times[name] for name in STAGE_TIMES]),
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit the config."""
        try:
            if state["history"].shape[1:] != self.evaluated_weights.shape:
                raise RunFormatError(
                    f"the saved evaluations have shape {state['history'].shape}; here every one of them has "
                    f"{self.evaluated_weights.shape}"
                )
            self.history, self.density = list(state["history"]), list(state["density"])
            self._density = state["density_now"].copy()
            self.iteration, self.evaluation_steps = int(state["iteration"]), int(state["evaluation_steps"])
            self._reports = [learning] if (learning := arrays_under("learning.", state)) else []
            self.executor.set_state(arrays_under("executor.", state))
            self.kept.set_state(arrays_under("kept.", state))
            self._spent = float(state["seconds"])
            self._stage_times = STAGE_TIMES | dict(
                zip(STAGE_TIMES, map(float, state.get("stage_seconds", ())), strict=False)
            )
        except (KeyError, IndexError, TypeError, ValueError) as fault:
            raise RunFormatError(f"the saved state does not fit this config: {fault!r}") from fault


def join_reports(reports: list[dict[str, NDArray]]) -> dict[str, NDArray]:
    """Reports [iterations, K] of several parts, one after the other."""
    return {name: np.concatenate([report[name] for report in reports]) for name in reports[0]} if reports else {}


def mean_reports(reports: list[dict[str, NDArray]]) -> dict[str, float]:
    """The mean of every reported number over iterations and policies."""
    joined = join_reports(reports)
    return {name: mean_of_finite(joined[name]) for name in sorted(joined)}


def rank_correlation(a: NDArray, b: NDArray) -> float:
    """Spearman's, of the pairs that are finite; NaN where one of the two does not vary."""
    both = np.isfinite(a) & np.isfinite(b)
    x, y = rankdata(a[both]), rankdata(b[both])
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


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
