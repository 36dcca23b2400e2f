"""The outer loop, told apart from training by an executor that only takes notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.learner import Diverged, Iteration, StageRecord
from ucb_moppo.engine.population import Divergence
from ucb_moppo.engine.probes import make_run_decomposition, probe_weights
from ucb_moppo.engine.shard import Timing
from ucb_moppo.engine.trainer import Stage, Trainer, make_schedule, rank_correlation
from ucb_moppo.objectives.indicators import measure
from ucb_moppo.objectives.weights import make_decomposition
from ucb_moppo.search.methods import Method, SearchContext, Selection
from ucb_moppo.seeding import SELECTION
from ucb_moppo.spec import ActionSpec, EnvSpec

SPEC = EnvSpec("fake", ("first", "second"), 3, ActionSpec(False, 1, (-1.0,), (1.0,)), 10, (0.0, 0.0))
K, CANDIDATES, N, PROBES = 3, 12, 4, 5
EVALUATION_STEPS = 70


def make_config(**changes: Any) -> MoppoConfig:
    """12 iterations of K·40 steps: a warm-up of 4 and two stages of 4, unless ``changes`` say otherwise.

    Policies are apart from the start.
    """
    small = {"policies": K, "candidates": CANDIDATES, "active": N, "probes": PROBES, "samples": 40, "minibatch": 20}
    stages = {"layout": "static", "steps": 12 * K * 40, "stage_iterations": 4, "warmup": 4, "episodes": 1}
    return resolve(override(default_settings("HalfCheetah-v2"), **(small | stages | changes)), SPEC)


def group_rows(weights: np.ndarray) -> Iterator[tuple[np.ndarray, Iterable[Any]]]:
    """Rows of [I, …] that follow each other and are equal."""
    groups = groupby(range(len(weights)), key=lambda i: weights[i].tobytes())
    return ((weights[indices[0]], indices) for indices in (list(same) for _, same in groups))


class NotingExecutor:
    """Trains nothing. Evaluation z of a weight w finds (z + 1)·(100·w_1, 10·w_2)."""

    def __init__(self) -> None:
        self.trained: list[tuple[np.ndarray, int]] = []
        """Weights [K, N, m] and how many iterations of one call were trained on them."""
        self.evaluated: list[tuple[np.ndarray, int]] = []
        self.partings: list[int] = []
        """Iterations that were trained before each call to part."""
        self.calls = 0

    part_iterations = 1000  # whole stages

    def train(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        self.calls += 1
        self.trained += [(row, len(list(same))) for row, same in group_rows(weights)]
        return {"entropy": np.full((len(weights), K), float(self.calls))}

    def part(self) -> None:
        self.partings.append(sum(length for _, length in self.trained))

    def divergences(self) -> list[Divergence]:
        return []

    def evaluate(self, weights: np.ndarray, episodes: int) -> Evaluation:
        self.evaluated.append((np.array(weights), episodes))
        found = self.growth(len(self.evaluated)) * weights * [100.0, 10.0]
        return Evaluation(np.repeat(found[:, :, None], episodes, axis=2), EVALUATION_STEPS)

    def growth(self, number: int) -> float:
        return number

    def policies(self) -> dict[str, np.ndarray]:
        """All ones after the first evaluation, all twos after the second …"""
        return {"actor.number": np.full((K, 1), len(self.evaluated))}

    def time_iteration(self) -> Timing:
        return Timing(1.0, 1.0)

    def get_state(self) -> dict[str, np.ndarray]:
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        pass

    def close(self) -> None:
        pass


def make_trainer(**changes: Any) -> tuple[Trainer, NotingExecutor]:
    executor = NotingExecutor()
    return Trainer(make_config(**changes), SPEC, executor), executor


def records_of(trainer: Trainer) -> list[StageRecord]:
    """What every evaluation of a run found."""
    return [event for event in trainer.run() if isinstance(event, StageRecord)]


def on_pivots(trainer: Trainer) -> np.ndarray:
    """[K, N, m]: every environment of a policy on its pivot. K = 3: w_1 = 1/6, 1/2 and 5/6."""
    pivots = np.array([[1 / 6, 5 / 6], [1 / 2, 1 / 2], [5 / 6, 1 / 6]])
    np.testing.assert_allclose(trainer.decomposition.pivots, pivots)
    return np.repeat(trainer.decomposition.pivots[:, None], N, axis=1)


# --- the schedule ---------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(iterations=st.integers(1, 300), share=st.floats(0, 1), shared=st.floats(0, 1), length=st.integers(1, 50))
def test_stages_tile_the_run(iterations: int, share: float, shared: float, length: int) -> None:
    warmup, together = round(share * iterations), round(shared * iterations)
    boundaries = sorted({0, warmup, together, iterations})
    stages = make_schedule(boundaries, warmup, length)
    assert [stage.index for stage in stages] == list(range(1, len(stages) + 1))
    assert stages[0].start == 0
    assert all(a.start + a.iterations == b.start for a, b in pairwise(stages))
    assert stages[-1].start + stages[-1].iterations == iterations
    assert all(1 <= stage.iterations <= length for stage in stages)
    # A boundary at the end of the warm-up; stages before it count 0, those after it 1, 2, 3, ...
    before = [stage for stage in stages if stage.start < warmup]
    after = [stage for stage in stages if stage.start >= warmup]
    assert sum(stage.iterations for stage in before) == warmup
    assert [stage.search for stage in before] == [0] * len(before)
    assert [stage.search for stage in after] == list(range(1, len(after) + 1))
    # Stages end where policies part, too; only those that end at a boundary may be shorter.
    ends = {stage.start + stage.iterations: stage for stage in stages}
    assert set(boundaries[1:]) <= set(ends)
    assert all(stage.iterations == length for end, stage in ends.items() if end not in boundaries)


def test_schedule_of_a_full_run() -> None:
    """800 iterations, 100 of warm-up, stages of 20: 5 + 35 stages."""
    stages = make_schedule([0, 100, 800], 100, 20)
    assert len(stages) == 40
    assert stages[4] == Stage(5, 80, 20, 0)
    assert stages[5] == Stage(6, 100, 20, 1)
    assert stages[-1] == Stage(40, 780, 20, 35)


def test_schedule_that_does_not_divide() -> None:
    """A warm-up of 5 in stages of 3 and 2, then 3 and 1."""
    assert make_config(steps=9 * K * 40, warmup=5, stage_iterations=3).num_stages == 4
    assert make_schedule([0, 5, 9], 5, 3) == [
        Stage(1, 0, 3, 0),
        Stage(2, 3, 2, 0),
        Stage(3, 5, 3, 1),
        Stage(4, 8, 1, 2),
    ]


@settings(max_examples=60, deadline=None)
@given(
    iterations=st.integers(1, 60),
    warmup=st.integers(0, 80),
    together=st.integers(0, 80),
    length=st.integers(1, 20),
    layout=st.sampled_from(["parting", "static"]),
)
def test_the_config_counts_the_stages_of_the_schedule(
    iterations: int, warmup: int, together: int, length: int, layout: str
) -> None:
    config = make_config(
        steps=iterations * K * 40, warmup=warmup, together=together, stage_iterations=length, layout=layout
    )
    stages = make_schedule(config.boundaries, config.search.warmup, length)
    assert config.num_stages == len(stages)
    if layout == "parting" and 0 < together < iterations:  # a stage begins with policies apart
        assert together in [stage.start for stage in stages]


# --- draws of method `random` ---------------------------------------------------------------------------


def draws(trainer: Trainer, stage: Stage) -> list[tuple[int, int]]:
    """Where in a stage weights are chosen anew, and for how many iterations."""
    iterations = range(stage.start, stage.start + stage.iterations)
    groups = [list(same) for _, same in groupby(iterations, key=lambda i: trainer._chosen_at(stage, i))]
    return [(same[0], len(same)) for same in groups]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        # Stages after the warm-up of 4: iterations 4 … 7 and 8 … 11.
        (4, [[(4, 4)], [(8, 4)]]),
        (2, [[(4, 2), (6, 2)], [(8, 2), (10, 2)]]),
        (1, [[(4, 1), (5, 1), (6, 1), (7, 1)], [(8, 1), (9, 1), (10, 1), (11, 1)]]),
        (3, [[(4, 3), (7, 1)], [(8, 2), (10, 2)]]),  # periods 4–6, 7–9, 10–12
        (100, [[(4, 4)], [(8, 4)]]),
    ],
)
def test_redraw_periods(every: int, expected: list[list[tuple[int, int]]]) -> None:
    trainer, _ = make_trainer(method="random", resample_iterations=every)
    warmup, *stages = trainer.stages()
    assert draws(trainer, warmup) == [(0, 4)]
    assert [draws(trainer, stage) for stage in stages] == expected


@settings(max_examples=60, deadline=None)
@given(every=st.integers(1, 15), length=st.integers(1, 9), warmup=st.integers(0, 20))
def test_draws_tile_their_stage_and_stay_in_a_period(every: int, length: int, warmup: int) -> None:
    trainer, _ = make_trainer(
        method="random",
        resample_iterations=every,
        stage_iterations=length,
        warmup=warmup,
        steps=25 * K * 40,
    )
    for stage in trainer.stages():
        covered = [i for start, count in draws(trainer, stage) for i in range(start, start + count)]
        assert covered == list(range(stage.start, stage.start + stage.iterations))
        if stage.search:
            for start, count in draws(trainer, stage):
                assert (start - warmup) // every == (start + count - 1 - warmup) // every


@pytest.mark.parametrize("method", ["ucb", "mean", "fixed"])
def test_other_methods_choose_once_per_stage(method: str) -> None:
    trainer, _ = make_trainer(method=method, resample_iterations=1)
    assert [draws(trainer, stage) for stage in trainer.stages()] == [[(0, 4)], [(4, 4)], [(8, 4)]]


def test_random_draws_belong_to_their_period() -> None:
    """With RF = 3 the period of iterations 7 … 9 spans two stages and trains on one draw; periods differ."""
    trainer, executor = make_trainer(method="random", resample_iterations=3)
    list(trainer.run())
    assert [length for _, length in executor.trained] == [4, 3, 1, 2, 2]
    drawn = [weights for weights, _ in executor.trained[1:]]  # iterations 4–6, 7, 8–9, 10–11
    np.testing.assert_array_equal(drawn[1], drawn[2])
    assert not np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[2], drawn[3])
    for weights in drawn:
        for k in range(K):  # N different candidates of the policy's own sub-space
            mine = {tuple(w) for w in trainer.decomposition.candidates[k]}
            assert len({tuple(w) for w in weights[k]} & mine) == N


def test_random_draws_belong_to_the_seed() -> None:
    def drawn(seed: int) -> np.ndarray:
        trainer, executor = make_trainer(method="random", seed=seed)
        list(trainer.run())
        return executor.trained[-1][0]

    np.testing.assert_array_equal(drawn(0), drawn(0))
    assert not np.array_equal(drawn(0), drawn(1))


# --- decomposition --------------------------------------------------------------------------------------


def test_replicas_tile_the_decomposition() -> None:
    """R = 2 of K = 3: policy i and policy i + 3 share pivot, candidates and probes."""
    config = make_config(replicas=2, steps=12 * 2 * K * 40)
    one = make_decomposition(2, K, CANDIDATES, PROBES)
    parts = make_run_decomposition(config, SPEC)
    assert config.num_subspaces == 6
    for name in ("pivots", "candidates", "probes"):
        array, single = getattr(parts, name), getattr(one, name)
        assert array.shape == (6, *single.shape[1:])
        np.testing.assert_array_equal(array[:3], single)
        np.testing.assert_array_equal(array[3:], single)


def test_number_of_probes_can_be_replaced() -> None:
    assert make_run_decomposition(make_config(), SPEC).probes.shape == (K, PROBES, 2)
    division = make_config().division
    np.testing.assert_array_equal(probe_weights(division, 2), make_run_decomposition(make_config(), SPEC).probes)
    assert probe_weights(division, 2, num_probes=9).shape == (K, 9, 2)


# --- the loop -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ucb", "mean", "random", "fixed"])
def test_warm_up_trains_on_pivots_only(method: str) -> None:
    """A warm-up of 8 iterations in two stages of 4."""
    trainer, executor = make_trainer(method=method, warmup=8)
    list(trainer.run())
    for weights, length in executor.trained[:2]:
        np.testing.assert_array_equal(weights, on_pivots(trainer))
        assert length == 4
    assert np.array_equal(executor.trained[2][0], on_pivots(trainer)) == (method == "fixed")


def test_fixed_always_trains_on_pivots() -> None:
    trainer, executor = make_trainer(method="fixed", warmup=0)
    list(trainer.run())
    assert len(executor.trained) == 3
    for weights, _ in executor.trained:
        np.testing.assert_array_equal(weights, on_pivots(trainer))


class NotingMethod:
    """Chooses the first N candidates at its first call, the next N at its second; predicts +1 and −2 everywhere."""

    def __init__(self, trainer: Trainer) -> None:
        self.contexts: list[SearchContext] = []
        self.trainer = trainer
        trainer.method = Method(self.choose)

    def choose(self, context: SearchContext) -> Selection:
        first = N * len(self.contexts)
        self.contexts.append(context)
        predicted = np.broadcast_to([1.0, -2.0], context.evaluated_weights.shape)
        diagnostics = {
            "predicted": predicted.tolist(),
            "sigma": np.full(predicted.shape, 10.0).tolist(),
            "beta": 0.5,
        }
        return Selection(context.candidates[:, first : first + N], diagnostics)


def test_the_selection_is_what_is_trained_on() -> None:
    trainer, executor = make_trainer()
    method = NotingMethod(trainer)
    records = records_of(trainer)
    candidates = trainer.decomposition.candidates
    np.testing.assert_array_equal(executor.trained[1][0], candidates[:, :N])
    np.testing.assert_array_equal(executor.trained[2][0], candidates[:, N : 2 * N])
    np.testing.assert_array_equal(records[2].selected, candidates[:, :N])
    # What the method was shown: everything evaluated before its stage, counted from 1, seeded by the iteration.
    first, second = method.contexts
    assert (first.stage, second.stage) == (1, 2)
    assert first.rng_seed == (trainer.config.seed, SELECTION, 4)
    assert second.rng_seed == (trainer.config.seed, SELECTION, 8)
    assert (first.num_active, first.group) == (N, 1)
    probes = trainer.decomposition.probes
    np.testing.assert_array_equal(first.evaluated_weights, probes)
    growth = np.arange(1, 4)[:, None, None, None]
    np.testing.assert_allclose(first.values, growth[:2] * probes * [100.0, 10.0])
    np.testing.assert_allclose(second.values, growth * probes * [100.0, 10.0])
    # The front to improve is what is kept: here the last evaluation, which is the best.
    np.testing.assert_allclose(second.front, (3 * probes * [100.0, 10.0]).reshape(-1, 2))
    # Rates of the stages after the evaluations, in the middle of iterations 0–4, 4–8 and 8–12 of 12.
    np.testing.assert_allclose(second.rates, [1 - 2 / 12, 1 - 6 / 12, 1 - 10 / 12])
    assert second.density.shape == (2, K, PROBES)


def test_prediction_is_held_against_what_came() -> None:
    """Every evaluation adds (100·w_1, 10·w_2); predicted +1, −2. Over all probes E|100·w_1 − 1| and 10·w_2 + 2.

    The 15 probes are w_1 = 0, 1/14, …, 1: mean 1/2, so the change is (50, 5) on average and the second error
    5 + 2 = 7. The first: 100·w_1 > 1 except for w_1 = 0, whose error is +1 and not −1: 50 − 1 + 2/15.
    """
    trainer, _ = make_trainer()
    NotingMethod(trainer)
    initial, warmup, found, _ = records_of(trainer)
    assert initial.diagnostics == warmup.diagnostics == {}
    assert found.diagnostics["beta"] == 0.5
    np.testing.assert_allclose(found.diagnostics["absolute_change"], [50.0, 5.0])
    np.testing.assert_allclose(found.diagnostics["absolute_error"], [49 + 2 / 15, 7.0])
    np.testing.assert_allclose(found.diagnostics["realised"], trainer.decomposition.probes * [100.0, 10.0])


def test_prediction_s_skill_is_told() -> None:
    """Predicted utility w_1 − 2 w_2 = 3x − 2 rises with x = w_1; what came is 100 x² + 10 (1 − x)².

    At x = 0, 1/14, 2/14, 3/14 that is 10, 9.13, 9.39, 10.8 and then more and more: ranks 3, 1, 2, 4, …, so that
    Σ d² = 2² + 1² + 1² and ρ = 1 − 6 · 6 / (15 (15² − 1)). Errors within 1.96 · 10: |100 x − 1| for x up to 2/14,
    3 of 15; 10 (1 − x) + 2 for all 15.
    """
    trainer, _ = make_trainer()
    NotingMethod(trainer)
    found = records_of(trainer)[2].diagnostics
    assert found["rank_correlation"] == pytest.approx(1 - 36 / 3360)
    assert found["coverage"] == pytest.approx(18 / 30)


def test_rank_correlation_of_what_is_finite() -> None:
    nan = np.nan
    assert rank_correlation(np.array([1, 2, nan, 3]), np.array([10, 20, 0, 1000])) == pytest.approx(1)
    assert rank_correlation(np.array([[1, 2], [3, nan]]), np.array([[3, 2], [1, nan]])) == pytest.approx(-1)
    for constant in (np.ones(3), np.full(3, nan)):
        assert np.isnan(rank_correlation(constant, np.arange(3.0)))


@pytest.mark.parametrize("selection", ["focused", "sequential", "top_n"])
@pytest.mark.parametrize("method", ["ucb", "mean"])
def test_ucb_and_mean_choose_candidates_of_their_own_sub_space(method: str, selection: str) -> None:
    trainer, executor = make_trainer(method=method, selection=selection)
    records = records_of(trainer)
    assert (records[-1].diagnostics["beta"] == 0) == (method == "mean")
    for weights, _ in executor.trained[1:]:
        for k in range(K):
            mine = {tuple(w) for w in trainer.decomposition.candidates[k]}
            chosen = {tuple(w) for w in weights[k]}
            assert chosen <= mine
            assert selection == "focused" or len(chosen) == N  # only that one picks a weight twice


def test_records() -> None:
    executor = NotingExecutor()
    trainer = Trainer(make_config(episodes=2), SPEC, executor)
    events = list(trainer.run())
    ticks = [event.iteration for event in events if isinstance(event, Iteration)]
    assert ticks == [4, 8, 12]  # this executor trains whole stages at a time
    records = events[::2]  # one after the first evaluation, and one after every tick
    assert [record.finished for record in records] == [False, False, False, True]
    assert trainer.finished
    assert [record.stage for record in records] == [0, 1, 2, 3]
    assert [record.iteration for record in records] == [0, 4, 8, 12]
    assert [record.training_steps for record in records] == [0, 480, 960, 1440]  # 4 · 3 · 40 each
    assert [record.evaluation_steps for record in records] == [70, 140, 210, 280]
    assert [record.learning for record in records] == [{}, *({"entropy": float(i)} for i in (1, 2, 3))]
    assert records[0].selected is None
    np.testing.assert_array_equal(records[1].selected, on_pivots(trainer))
    seconds = [record.seconds for record in records]
    assert seconds[0] > 0
    assert seconds == sorted(seconds)
    assert [episodes for _, episodes in executor.evaluated] == [2] * 4
    assert len(trainer.history) == 4
    for z, record in enumerate(records):
        np.testing.assert_allclose(record.returns, (z + 1) * trainer.decomposition.probes * [100.0, 10.0])
        np.testing.assert_array_equal(record.returns, trainer.history[z])


def test_a_stage_that_was_interrupted_counts_its_time_before_it() -> None:
    first, _ = make_trainer()
    next(first.run())
    first._stage_times["training"] = 1000.0  # as if it had trained for long when it was interrupted
    second, _ = make_trainer()
    second.set_state(first.get_state())
    times = [record.stage_seconds["training"] for record in records_of(second)]
    assert 1000.0 <= times[0] < 2000.0
    assert max(times[1:]) < 1000.0


def test_a_state_without_the_times_of_its_stage_still_loads() -> None:
    first, _ = make_trainer()
    next(first.run())
    state = first.get_state()
    del state["stage_seconds"]
    second, _ = make_trainer()
    second.set_state(state)
    assert records_of(second)[0].stage_seconds["training"] < 1000.0


def test_history_grows_before_the_next_choice() -> None:
    trainer, _ = make_trainer()
    lengths = [len(trainer.history) for event in trainer.run() if isinstance(event, StageRecord)]
    assert lengths == [1, 2, 3, 4]


@pytest.mark.parametrize("part", [1, 2, 3])
def test_what_is_known_of_a_stage_does_not_depend_on_its_parts(part: int) -> None:
    """How many iterations make a part follows from the clock, and sums from their order, to the last bit."""
    settings = {"method": "random", "resample_iterations": 1, "stage_iterations": 8, "steps": 28 * K * 40}
    (whole, _), (divided, executor) = make_trainer(**settings), make_trainer(**settings)
    executor.part_iterations = part
    for trainer in (whole, divided):
        list(trainer.run())
    assert len(whole.density) == 4
    assert np.stack(whole.density).tobytes() == np.stack(divided.density).tobytes()


def test_simulate_evaluates_candidates_and_reports_probes() -> None:
    trainer, executor = make_trainer(candidate_values="simulate")
    records = records_of(trainer)
    parts = trainer.decomposition
    expected = np.concatenate([parts.candidates, parts.probes], axis=1)
    for weights, _ in executor.evaluated:
        np.testing.assert_array_equal(weights, expected)
    assert trainer.history[0].shape == (K, CANDIDATES + PROBES, 2)
    for z, record in enumerate(records):
        np.testing.assert_allclose(record.returns, (z + 1) * parts.probes * [100.0, 10.0])
    # The same front as without simulating: indicators of methods and settings can be compared.
    probes_only, _ = make_trainer()
    assert records[0].indicators == next(probes_only.run()).indicators


def test_a_run_continues_from_its_history() -> None:
    """Stopped after the warm-up and taken up by another trainer: the rest is the same."""
    whole, whole_executor = make_trainer()
    list(whole.run())
    first, executor = make_trainer()
    run = first.run()
    next(run), next(run), next(run)  # the first evaluation, the warm-up and its evaluation
    second = Trainer(first.config, SPEC, executor)
    second.set_state(first.get_state())
    records = records_of(second)
    assert [record.stage for record in records] == [2, 3]
    assert records[-1].evaluation_steps == 280
    assert records[-1].training_steps == 1440
    for (found, _), (expected, _) in zip(executor.trained, whole_executor.trained, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_indicators() -> None:
    """(3, 1) and (1, 2) above (0, 0): HV 3·1 + 1·1 = 4; (1, 1) is dominated; sparsity (2² + 1²)/1 = 5.

    max(w·(3, 1), w·(1, 2)) with w = (x, 1 − x) is 1 + 2x from x = 1/3 on and 2 − x before, where they meet at
    5/3. Its integral over [0, 1]: (2 + 5/3)/2 · 1/3 + (5/3 + 3)/2 · 2/3 = 11/18 + 28/18 = 2.1667; 100 weights
    come to within 0.01 of it.
    """
    found = measure(np.array([[[3.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [1.0, 1.0]]]), make_config().reference_point)
    assert found["hypervolume"] == pytest.approx(4.0)
    assert found["sparsity"] == pytest.approx(5.0)
    assert found["cardinality"] == 2
    assert found["expected_utility"] == pytest.approx(39 / 18, abs=0.01)


def test_the_time_from_before_the_first_iteration_counts() -> None:
    """Compiling and measuring happen before ``run``; what a run took before it was interrupted is added."""
    trainer = Trainer(make_config(), SPEC, NotingExecutor(), begun=perf_counter() - 100)
    records = records_of(trainer)
    assert 100 <= records[0].seconds <= records[-1].seconds < 130
    again = Trainer(make_config(), SPEC, NotingExecutor(), begun=perf_counter() - 10)
    again.set_state(trainer.get_state())
    assert 110 <= again.seconds < 140


def test_divergences_are_told_once_with_the_stage_they_came_in() -> None:
    trainer, executor = make_trainer()
    known: list[Divergence] = []
    executor.divergences = lambda: list(known)  # type: ignore[method-assign]
    told = []
    for event in trainer.run():
        if isinstance(event, Iteration) and event.iteration == 4:
            known.append(Divergence(1, 3, "loss"))
        if isinstance(event, Iteration) and event.iteration == 12:
            known.append(Divergence(1, 11, "returns"))
        if isinstance(event, Diverged):
            told.append((trainer.num_evaluations, event))
    # After the evaluation that follows it: the first time it is restored, the second time set aside.
    assert told == [(2, Diverged(1, 3, "loss", "restored")), (4, Diverged(1, 11, "returns", "set aside"))]
    again, executor = make_trainer()
    executor.divergences = lambda: list(known)  # type: ignore[method-assign]
    earlier = {"history": np.array(trainer.history[:2]), "density": np.array(trainer.density[:1])}
    again.set_state(trainer.get_state() | earlier | {"iteration": np.array(4)})
    assert not any(isinstance(event, Diverged) for event in again.run())  # what is known is not told again


# --- what is kept ---------------------------------------------------------------------------------------


class FallingExecutor(NotingExecutor):
    """Returns grow until the third evaluation, then fall."""

    def growth(self, number: int) -> float:
        return (1.0, 3.0, 5.0, 2.0)[number - 1]


def test_what_was_found_is_not_lost_again() -> None:
    trainer = Trainer(make_config(), SPEC, FallingExecutor())
    records = records_of(trainer)
    volumes = [record.indicators["hypervolume"] for record in records]
    assert volumes == sorted(volumes)
    assert volumes[-1] == volumes[-2]
    best = 5 * trainer.decomposition.probes * [100.0, 10.0]
    np.testing.assert_allclose(records[-1].returns, best)
    # The policies to deploy are those of the third evaluation; what the search sees is what is there now.
    np.testing.assert_array_equal(trainer.snapshot().tensors["actor.number"], np.full((K, 1), 3))
    np.testing.assert_allclose(trainer.history[-1], best * 2 / 5)


def test_what_is_kept_is_resumed() -> None:
    whole = Trainer(make_config(), SPEC, FallingExecutor())
    list(whole.run())
    executor = FallingExecutor()
    first = Trainer(make_config(), SPEC, executor)
    run = first.run()
    for _ in range(5):  # the first evaluation, and two stages with theirs
        next(run)
    second = Trainer(make_config(), SPEC, executor)
    second.set_state(first.get_state())
    assert [record.stage for record in records_of(second)] == [3]
    for name, array in whole.kept.get_state().items():
        np.testing.assert_array_equal(second.kept.get_state()[name], array, err_msg=name)


# --- learning together, then apart ----------------------------------------------------------------------

# 12 iterations in stages of 4: one policy for all until 8, weights drawn at random until 4.
PARTING: dict[str, Any] = {"layout": "parting", "warmup": 4, "together": 8, "resample_iterations": 2}


def test_policies_part_after_the_evaluation_of_what_they_learnt_together() -> None:
    trainer, executor = make_trainer(**PARTING)
    iterations = [event.iteration for event in trainer.run() if isinstance(event, Iteration)]
    assert iterations == [4, 8, 12]
    assert executor.partings == [8]
    assert len(executor.evaluated) == 4


@pytest.mark.parametrize(("together", "partings"), [(0, [0, 4, 8]), (4, [4, 8]), (12, []), (99, [])])
def test_policies_part_when_they_are_told(together: int, partings: list[int]) -> None:
    """The executor is told at the beginning of every stage of policies apart; once they are, that asks nothing."""
    trainer, executor = make_trainer(**PARTING | {"together": together})
    list(trainer.run())
    assert executor.partings == partings
    static, executor = make_trainer()
    list(static.run())
    assert executor.partings == [0, 4, 8]


def test_a_shared_policy_s_warm_up_draws_candidates_anew() -> None:
    """Every two iterations N different candidates of each sub-space, handed on by one environment a period."""
    trainer, executor = make_trainer(**PARTING)
    list(trainer.run())
    drawn = [weights for weights, _ in executor.trained[:2]]
    assert [length for _, length in executor.trained[:2]] == [2, 2]
    assert not np.array_equal(*drawn)
    for period, weights in enumerate(drawn):
        drawn_for = np.roll(weights.reshape(K * N, 2), -period, axis=0).reshape(K, N, 2)
        for k in range(K):
            mine = {tuple(w) for w in trainer.decomposition.candidates[k]}
            assert len({tuple(w) for w in drawn_for[k]} & mine) == N


@pytest.mark.parametrize("method", ["mean", "random", "fixed"])
def test_methods_share_their_warm_up(method: str) -> None:
    """So that they stay comparable: the same weights as `ucb` has until the search begins."""
    ours, other = make_trainer(**PARTING), make_trainer(**PARTING, method=method)
    for trainer, _ in (ours, other):
        list(trainer.run())
    for (mine, _), (its, _) in zip(ours[1].trained[:2], other[1].trained[:2], strict=True):
        np.testing.assert_array_equal(mine, its)


def test_search_is_told_who_shares_a_policy() -> None:
    trainer, _ = make_trainer(**PARTING | {"resample_iterations": 4})
    method = NotingMethod(trainer)
    list(trainer.run())
    assert [context.group for context in method.contexts] == [K, 1]
    assert [context.stage for context in method.contexts] == [1, 2]


def test_a_parting_run_continues_from_its_history() -> None:
    """Stopped after 4 iterations, 8 (just before parting) and 12 minus one stage: the rest is trained alike."""
    whole, whole_executor = make_trainer(**PARTING)
    list(whole.run())
    for events in (3, 4, 5, 6):  # evaluation, stage, evaluation | stage | evaluation | stage
        first, executor = make_trainer(**PARTING)
        run = first.run()
        for _ in range(events):
            next(run)
        second = Trainer(first.config, SPEC, executor)
        second.set_state(first.get_state())
        list(second.run())
        assert len(executor.trained) == len(whole_executor.trained)
        for (found, _), (expected, _) in zip(executor.trained, whole_executor.trained, strict=True):
            np.testing.assert_array_equal(found, expected)
