"""PGMORL, CAPQL and GPI-LS: every step counted, actors translated exactly, runs like any other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import train_tiny

import ucb_moppo
from ucb_moppo.config import PeerConfig, make_settings, resolve
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.envs import make_spec
from ucb_moppo.envs.native import NativeBatch
from ucb_moppo.errors import ConfigError
from ucb_moppo.peers.base import Counts
from ucb_moppo.policy.actors import actors_from_tensors
from ucb_moppo.report import write_report
from ucb_moppo.report.load import load_all
from ucb_moppo.report.method_tables import comparison_table, kept_table
from ucb_moppo.report.sections import make_sections
from ucb_moppo.store.run import Run
from ucb_moppo.training.reevaluate import evaluate_run

torch = pytest.importorskip("torch", reason="needs the extra 'peers': pip install 'ucb-moppo[peers]'")
pytest.importorskip("morl_baselines", reason="needs the extra 'peers': pip install 'ucb-moppo[peers]'")

from morl_baselines.single_policy.ser.mo_ppo import make_env  # noqa: E402

from ucb_moppo.peers.morl_baselines import (  # noqa: E402
    CAPQLPeer,
    GPILSPeer,
    PGMORLPeer,
    find_normaliser,
    pool_statistics,
    registered,
)

SMALL: dict[str, dict[str, Any]] = {
    "pgmorl": {
        "num_envs": 2,
        "steps_per_iteration": 16,
        "num_minibatches": 2,
        "update_epochs": 1,
        "delta_weight": 0.25,
        "num_performance_buffer": 2,
        "performance_buffer_size": 1,
        "net_arch": (5, 4),
    },
    "capql": {"learning_starts": 20, "batch_size": 8, "net_arch": (6, 5)},
    "gpils": {
        "learning_starts": 20,
        "batch_size": 8,
        "net_arch": (6, 5),
        "gradient_updates": 1,
        "timesteps_per_iter": 70,
        "num_eval_episodes_for_front": 1,
    },
}
STEPS, HORIZON = 240, 20
WEIGHTS = np.stack([np.linspace(0, 1, 5), np.linspace(1, 0, 5)], axis=1)


@pytest.fixture(scope="module")
def counted() -> Iterator[list[int]]:
    """Every environment that any batch has stepped, noted where the physics is."""
    rows: list[int] = []
    step = NativeBatch.step

    def noting(self: Any, action: Any, ids: Any = None) -> Any:
        rows.append(len(action))
        return step(self, action, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NativeBatch, "step", noting)
        yield rows


@pytest.fixture(scope="module", params=sorted(SMALL))
def trained(request: Any, tmp_path_factory: Any, counted: list[int]) -> tuple[Run, int]:
    """A run of each method, and the environment steps that it took."""
    counted.clear()
    run = ucb_moppo.train(
        "Swimmer-v2",
        method=request.param,
        seed=3,
        steps=STEPS,
        horizon=HORIZON,
        evaluations=2,
        threads=1,
        out=tmp_path_factory.mktemp("peers") / request.param,
        quiet=True,
        **SMALL[request.param],
    )
    return run, sum(counted)


def test_every_environment_step_is_counted(trained: tuple[Run, int]) -> None:
    run, taken = trained
    found = run.summary
    assert found["training_steps"] == STEPS
    counted = found["training_steps"] + found["pretraining_steps"] + found["evaluation_steps"]
    assert counted + found["held_out"]["steps"] == taken
    assert (found["peer_evaluation_steps"] > 0) == (found["method"] != "capql")
    assert found["finished"] is True


@pytest.mark.parametrize("method", sorted(SMALL))
def test_it_is_stepped_by_hand_and_its_user_may_print(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The packages' own prints are kept off the terminal: those between two of their steps are somebody else's."""
    settings = {"steps": STEPS, "horizon": HORIZON, "evaluations": 2, "threads": 1, "episodes": 1} | SMALL[method]
    threads = threading.active_count()
    with ucb_moppo.make_trainer("Swimmer-v2", method=method, **settings) as trainer:
        events = trainer.run()
        for event in islice(events, 4):
            print(type(event).__name__, len(trainer.front()) > 0, trainer.policy([0.5, 0.5])(np.zeros(8)).shape)
        assert threading.active_count() == threads + 1
        with pytest.raises(ConfigError, match=f"{method} cannot be continued where it was left"):
            trainer.run()
    assert threading.active_count() == threads
    told = capsys.readouterr().out.splitlines()
    assert told == ["StageRecord True (2,)", *["Iteration True (2,)"] * 3]


def test_the_run_is_like_any_other(trained: tuple[Run, int]) -> None:
    run = ucb_moppo.load(trained[0].path)
    assert isinstance(run, Run)
    evaluated = run.evaluated()
    if run.config["method"] == "pgmorl":
        assert evaluated.policy.tolist() == [*range(run.summary["policies"])]
    else:
        assert len(evaluated.weights) == run.config["policies"] * run.config["probes"]
        assert set(evaluated.policy.tolist()) == {0}
    np.testing.assert_allclose(evaluated.weights.sum(1), 1)
    action = run.policy([0.3, 0.7])(np.zeros(8))
    assert action.shape == (2,)
    assert (np.abs(action) <= 1).all()
    assert run.config["settings"]["net_arch"] == list(SMALL[run.config["method"]]["net_arch"])
    assert run.summary["versions"]["morl-baselines"]
    assert evaluate_run(run.path, None, 1)["hypervolume"] == run.summary["hypervolume"]


def test_sampled_actions_need_a_standard_deviation(trained: tuple[Run, int]) -> None:
    run, _ = trained
    if run.config["method"] == "pgmorl":
        first, again = (evaluate_run(run.path, None, 1, sampled=True) for _ in range(2))
        assert first == again
        assert first["expected_utility"] != run.summary["expected_utility"]
    else:
        with pytest.raises(ConfigError, match="without a standard deviation"):
            evaluate_run(run.path, None, 1, sampled=True)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: Any) -> Run:
    return train_tiny(tmp_path_factory.mktemp("ours") / "ours", steps=STEPS)


def test_it_is_compared_with_ours(trained: tuple[Run, int], ours: Run, tmp_path: Path) -> None:
    """One section: the problem, horizon and reference point are the same. The differing settings are no label."""
    (section,) = make_sections(load_all([trained[0].path, ours.path]))
    method = trained[0].config["method"]
    assert [row[0] for row in comparison_table(section).rows] == ["ucb", method]
    assert [row[2] for row in kept_table(section).rows[:2]] == ["2", str(trained[0].summary["policies"])]
    page = write_report([trained[0].path, ours.path], tmp_path / "report").read_text()
    assert method in page
    assert "of which the method&#x27;s own" in page


# --- the agents themselves ---------------------------------------------------------------------------------


def make_peer(
    kind: Any, method: str, steps: int = STEPS, problem: str = "Swimmer-v2", horizon: int = HORIZON, **changes: Any
) -> Any:
    spec = make_spec(problem, horizon)
    settings = {"seed": 3, "steps": steps, "horizon": horizon, "threads": 1, **SMALL[method], **changes}
    config = resolve(make_settings(problem, method, **settings), spec)
    assert isinstance(config, PeerConfig)
    return kind(spec, config, environments_of(config), WEIGHTS)


def train_until(peer: Any, steps: int) -> list[Counts]:
    """What a peer told until it had taken ``steps``, where it was left for good."""
    told: list[Counts] = []
    with closing(peer.train()) as counts:
        while not told or told[-1].budgeted < steps:
            told.append(next(counts))
    return told


@pytest.mark.parametrize(("kind", "method"), [(CAPQLPeer, "capql"), (GPILSPeer, "gpils")])
def test_conditioned_actors_are_translated_exactly(kind: Any, method: str) -> None:
    """The package's deterministic action against numpy's, after some training, on random inputs."""
    peer, rng = make_peer(kind, method), np.random.default_rng(0)
    told = train_until(peer, 60)
    assert [counts.budgeted for counts in told][-1] == 60
    snapshot = peer.snapshot()
    observation, weight = rng.normal(size=(50, 8)) * 3, rng.dirichlet(np.ones(2), 50)
    actors = actors_from_tensors(snapshot.tensors, snapshot.network)
    ours = actors(observation[None], weight[None].astype(np.float32))[0]
    theirs = np.stack([peer.agent.eval(o, w) for o, w in zip(observation, weight, strict=True)])
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(snapshot.weights, WEIGHTS[None])
    assert np.abs(np.diff(ours, axis=0)).max() > 0.01


def test_pgmorl_s_actors_are_translated_exactly_with_their_normalisation() -> None:
    """Raw observations through our network against normalised ones through the package's actor.

    Five tasks take 32 steps each: at step 150 the first four have been updated, so they are not in the archive,
    which has copies from before training and comes first.
    """
    peer = make_peer(PGMORLPeer, "pgmorl")
    train_until(peer, 150)
    snapshot, rng = peer.snapshot(), np.random.default_rng(0)
    observation = rng.normal(size=(20, 8)) * [0.01, 0.1, 1, 1, 1, 3, 3, 30]  # the last feature is clipped
    statistics = peer.pooled_statistics()
    scaled = np.clip((observation - statistics.mean) / np.sqrt(statistics.variance), -10, 10)
    agents, first = peer.agent.agents[:4], len(peer.archive.individuals)
    inputs = np.broadcast_to(observation, (len(snapshot.weights), 20, 8))
    actors = actors_from_tensors(snapshot.tensors, snapshot.network)
    ours = actors(inputs, np.zeros((*inputs.shape[:2], 2), np.float32))[first : first + 4]
    for agent, action in zip(agents, ours, strict=True):
        theirs = agent.networks.actor_mean(torch.tensor(scaled, dtype=torch.float32)).detach().numpy()
        np.testing.assert_allclose(action, theirs, rtol=1e-4, atol=1e-6)
    weights = snapshot.weights[first : first + 4, 0]
    np.testing.assert_allclose(weights, np.stack([agent.weights.numpy() for agent in agents]), atol=1e-6)
    assert np.abs(ours).max() > 0.001


def test_pgmorl_s_archive_keeps_the_statistics_of_its_time() -> None:
    """What came into the archive at the first evaluation keeps those of the environments before any training."""
    peer = make_peer(PGMORLPeer, "pgmorl", steps=10_000)
    early = peer.pooled_statistics()
    train_until(peer, 150)  # still in the first iteration: the archive is from before the warm-up
    assert peer.archive.individuals
    for kept in peer.archive.statistics:
        np.testing.assert_array_equal(kept.mean, early.mean)
    assert not np.array_equal(peer.pooled_statistics().mean, early.mean)


def test_pooled_statistics_are_those_of_all_observations_together() -> None:
    """Two environments with their own wrappers, against the mean and variance of everything that was observed.

    Gymnasium's statistics start from a ten-thousandth of an observation at 0 with variance 1.
    """
    peer = make_peer(PGMORLPeer, "pgmorl")
    with registered(lambda **_: peer.make_env("training", 9)) as env_id:
        envs = [make_env(env_id, seed, 0, "", 0.99)() for seed in (1, 2)]
    parts = [find_normaliser(env) for env in envs]
    rng, rows = np.random.default_rng(0), []
    for part, size in zip(parts, (50, 150), strict=True):
        part.mean, part.var, part.count = np.zeros(8), np.ones(8), 1e-4
        batch = rng.normal(size=(size, 8)) * 2 + 1
        part.update(batch)
        rows.append(batch)
    everything = np.concatenate(rows)
    pooled = pool_statistics(parts)
    np.testing.assert_allclose(pooled.mean, everything.mean(0), rtol=1e-4)
    np.testing.assert_allclose(pooled.variance, everything.var(0), rtol=1e-3)
    assert pooled.count == pytest.approx(200, abs=1e-3)


def test_the_same_seed_gives_the_same_policies() -> None:
    tensors = []
    for _ in range(2):
        peer = make_peer(CAPQLPeer, "capql")
        train_until(peer, 60)
        tensors.append(peer.snapshot().tensors)
    for name, array in tensors[0].items():
        np.testing.assert_array_equal(array, tensors[1][name])


def test_a_short_pgmorl_run_keeps_the_published_shares() -> None:
    """Published: 6 tasks of 5M steps, 80 iterations of warm-up and 20 per generation. A tenth of it: 8 and 2."""
    published = {"num_envs": 4, "steps_per_iteration": 2048, "delta_weight": 0.2}
    peer = make_peer(PGMORLPeer, "pgmorl", steps=3_000_000, problem="HalfCheetah-v2", **published)
    assert (peer.num_tasks(), peer.schedule()) == (6, (8, 2))
    whole = make_peer(PGMORLPeer, "pgmorl", steps=90_000_000, problem="HalfCheetah-v2", **published)
    assert whole.schedule() == (80, 20)
    with pytest.raises(ConfigError, match=r"would train 9 tasks.*0.2 gives 6 weights"):
        make_peer(PGMORLPeer, "pgmorl", **published, pop_size=9)
    with pytest.raises(ConfigError, match=r"would train 3 tasks; it needs 4 at least"):
        make_peer(PGMORLPeer, "pgmorl", delta_weight=0.5)


@pytest.mark.parametrize("horizon", [1, 3])
def test_pgmorl_meets_its_budget_where_episodes_end_in_rollouts(horizon: int, tmp_path: Path) -> None:
    """Rollouts are 16 calls in each of two environments, of which every second or every fourth only resets."""
    run = ucb_moppo.train(
        "Swimmer-v2",
        method="pgmorl",
        steps=400,
        horizon=horizon,
        evaluations=1,
        threads=1,
        out=tmp_path / "run",
        quiet=True,
        **SMALL["pgmorl"],
    )
    assert run.summary["training_steps"] == 400
    assert run.summary["finished"] is True


def test_pgmorl_anneals_over_the_budget_where_episodes_end_in_rollouts() -> None:
    """With one step per episode, 5 tasks take 80 steps in an iteration of 160 calls; 320 steps are 3 planned
    iterations. The package begins at iteration 0 with 1 - (0 - 1)/3 of the rate. Each further iteration
    is half of a planned one, a sixth of the rate less."""
    peer = make_peer(PGMORLPeer, "pgmorl", steps=320, horizon=1, anneal_lr=True, learning_rate=0.003)
    rates = []
    with closing(peer.train()) as told:
        for counts in told:
            if counts.training % 80 == 1:
                rates.append(peer.agent.agents[0].optimizer.param_groups[0]["lr"])
            if counts.training == 320:
                break
    np.testing.assert_allclose(rates, [0.004, 0.0035, 0.003, 0.0025])


def test_choices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"3 discrete choices; this peer needs a Box"):
        ucb_moppo.train("probe_envs:probe/Counter-v0", method="capql", out=tmp_path / "run", quiet=True)


def test_other_action_ranges_are_stretched(tmp_path: Path) -> None:
    """Any Gymnasium environment with vector rewards trains. This one pays the action it was given, for 5 steps."""
    run = ucb_moppo.train(
        "probe_envs:probe/Echo-v0",
        method="capql",
        steps=40,
        horizon=5,
        evaluations=1,
        reference_point=(-20.0, -1.0),
        threads=1,
        out=tmp_path / "run",
        quiet=True,
        **SMALL["capql"],
    )
    # From [-2, 2] × [0, 10]; an untrained actor is near the middle of both.
    returns = run.evaluated().returns / 5
    assert (returns >= [-2, 0]).all()
    assert (returns <= [2, 10]).all()
    assert returns[:, 1].max() > 1
