"""The wireless example: what it pays in a network worked out by hand, its rules, and the study from end to end."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from tiny_runs import TINY

import ucb_moppo
from ucb_moppo.envs.adapter import GymBatch

pytest.importorskip("mobile_env", reason='mobile-env is not here: pip install "ucb-moppo[wireless]"')
EXAMPLE = Path(__file__).parents[1] / "examples" / "wireless"
SMALL, MEDIUM = "WirelessSmall-v0", "WirelessMedium-v0"


@pytest.fixture(autouse=True, scope="module")
def on_path() -> Iterator[None]:
    """The example's modules, importable by their names as its readers have them."""
    sys.path.insert(0, str(EXAMPLE))
    yield
    sys.path.remove(str(EXAMPLE))


@pytest.fixture
def cells() -> ModuleType:
    import cells

    return cells


@pytest.fixture
def baselines() -> ModuleType:
    import baselines

    return baselines


@pytest.fixture
def study() -> ModuleType:
    import study

    return study


def place(env, *positions: tuple[float, float]) -> None:
    """Put the users where they are wanted and keep them there."""
    for user, (user.x, user.y) in zip(env.network.users.values(), positions, strict=True):
        user.velocity = 0.0


# --- what is paid --------------------------------------------------------------------------------------------


def test_a_network_worked_out_by_hand(cells: ModuleType) -> None:
    """Stations stand at (110, 130), (65, 80) and (120, 30) and reach 68 metres."""
    env = cells.Cells("small")
    env.reset(seed=0)
    # Users 0 and 1 twenty metres from the first station, user 2 as near to the second, 3 and 4 out of all reach.
    place(env, (130, 130), (90, 130), (85, 80), (0, 199), (199, 199))
    # Twenty metres: 9 MHz · log2(1 + SNR) is 16.95, whose utility is log10 of it in [−2, 2], halved.
    near = np.log10(16.949550755366324) / 2
    # Users 0 and 2 connect; user 3 belongs to a station out of reach and gets nothing.
    _, reward, *_ = env.step(np.array([1, 0, 2, 1, 0]))
    np.testing.assert_allclose(reward, [(2 * near - 3) / 5, 2 / 5, -2 / 3, -2 / 5], rtol=1e-6)
    # User 1 joins the first station: it and user 0 have half the rate each.
    half = np.log10(16.949550755366324 / 2) / 2
    _, reward, *_ = env.step(np.array([1, 1, 2, 1, 0]))
    np.testing.assert_allclose(reward, [(near + 2 * half - 2) / 5, 3 / 5, -2 / 3, -1 / 5], rtol=1e-6)
    # User 2 walks out of reach: its connection breaks, its station sleeps, and that is a change too.
    env.network.users[2].x, env.network.users[2].y = 0, 199
    _, reward, *_ = env.step(np.array([1, 1, 2, 1, 0]))
    np.testing.assert_allclose(reward, [(2 * half - 3) / 5, 2 / 5, -1 / 3, -1 / 5], rtol=1e-6)
    # User 1 is sent away.
    _, reward, *_ = env.step(np.array([1, 0, 2, 1, 0]))
    np.testing.assert_allclose(reward, [(near - 4) / 5, 1 / 5, -1 / 3, -1 / 5], rtol=1e-6)


def test_an_observation_says_who_is_connected_what_is_in_reach_and_how_well_users_are_served(
    cells: ModuleType,
) -> None:
    env = cells.Cells("small")
    env.reset(seed=0)
    place(env, (130, 130), (110, 198), (110, 199), (0, 199), (110, 130))
    observation, *_ = env.step(np.array([1, 0, 0, 0, 0]))
    connected, signals = cells.read_observation(observation, 5)
    assert connected.tolist() == [[True, False, False], *[[False] * 3] * 4]
    # 20 metres are 18.15 dB above what is needed, 68 are within reach and 69 are not; at the mast it is the most.
    assert signals[0, 0] == pytest.approx(18.147 / 30, abs=1e-4)
    assert signals[1, 0] > 0 > signals[2, 0]
    assert signals[4, 0] == 1
    assert observation.reshape(5, 7)[:, 6] == pytest.approx([np.log10(16.9495507) / 2, -1, -1, -1, -1])
    assert observation in env.observation_space


def test_losses_that_are_remembered_are_mobile_env_s_own(cells: ModuleType) -> None:
    """Bit for bit, and so are the returns of an episode."""
    from mobile_env.core.channels import OkumuraHata

    env, plain = cells.Cells("small"), cells.Cells("small")
    plain._channel = OkumuraHata()
    env.reset(seed=4)
    plain.reset(seed=4)
    rng = np.random.default_rng(0)
    for _ in range(30):
        action = rng.integers(4, size=5)
        ours, theirs = env.step(action), plain.step(action)
        assert np.array_equal(ours[0], theirs[0])
        assert np.array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("env_id", [SMALL, MEDIUM])
def test_resets_are_a_pure_function_of_the_seed(cells: ModuleType, env_id: str) -> None:
    env, other = gymnasium.make(env_id), gymnasium.make(env_id)
    for _ in range(2):  # whatever came before
        env.reset(seed=8)
        env.step(env.action_space.sample())
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(10)]
    paths = []
    for which in (env, other):
        seen = [which.reset(seed=3)[0]]
        for action in actions:
            observation, reward, *_ = which.step(action)
            seen += [observation, reward]
        paths.append(np.concatenate(seen))
    assert np.array_equal(*paths)
    assert not np.array_equal(env.reset(seed=4)[0], env.reset(seed=5)[0])
    # Without a seed the next episode is another one.
    assert not np.array_equal(env.reset()[0], env.reset()[0])


@pytest.mark.parametrize("scenario", ["small", "medium"])
def test_gymnasium_s_checker_accepts_it(cells: ModuleType, scenario: str) -> None:
    """All it minds is that the reward is a vector."""
    with warnings.catch_warnings(record=True) as minded:
        warnings.simplefilter("always")
        check_env(gymnasium.make(f"Wireless{scenario.capitalize()}-v0", render_mode="rgb_array").unwrapped)
    words = [str(warning.message) for warning in minded if "spec" not in str(warning.message)]
    assert all("reward returned by `step()` must be a float" in word for word in words), words


def test_what_the_library_reads_of_it(cells: ModuleType) -> None:
    small, medium = GymBatch(f"cells:{SMALL}", 1).spec, GymBatch(f"cells:{MEDIUM}", 1).spec
    assert small.objectives == ("quality", "coverage", "energy", "signalling")
    assert (small.observation_size, small.action.choices, small.horizon) == (35, (5,) * 5, 100)
    assert (medium.observation_size, medium.action.choices, medium.horizon) == (225, (9,) * 15, 100)
    # Where nothing else is said, the reference is the lowest return that there can be.
    assert small.reference_point == (-100, 0, -100, -300)


def test_an_unknown_scenario_is_refused(cells: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"'huge' is not known; choose one of small, medium"):
        cells.Cells("huge")


# --- rules ---------------------------------------------------------------------------------------------------


def test_rules_return_what_is_known_of_them(cells: ModuleType, baselines: ModuleType) -> None:
    """Somebody else's figures for best signal: (−0.5, 92.8, −83, −3.8)."""
    seeds = baselines.held_out_seeds(12)
    found = {name: baselines.measure_rule(rule, SMALL, seeds) for name, rule in baselines.RULES.items()}
    assert np.array_equal(found["doing nothing"], np.tile([-100.0, 0, 0, 0], (12, 1)))
    # About three standard errors of twelve episodes.
    assert (np.abs(found["best signal"].mean(axis=0) - [-0.5, 92.8, -83, -3.8]) < [12, 8, 9, 1]).all()
    # Both connect whoever is in reach; to be at every station keeps more of them awake and changes more often.
    best, everywhere = found["best signal"], found["all on"]
    assert np.array_equal(best[:, 1], everywhere[:, 1])
    assert (best[:, 2] >= everywhere[:, 2]).all()
    assert best[:, 3].mean() > everywhere[:, 3].mean()
    # A user that random actions send elsewhere at every step changes far more often than one that walks.
    assert (found["random"][:, 3] < 10 * best[:, 3]).all()


def test_random_changes_return_what_is_known_of_them(
    cells: ModuleType, baselines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With mobile-env's own actions, which toggle connections: (−40, 56, −68, −34), somebody else's figures."""
    from mobile_env.handlers.central import MComCentralHandler

    monkeypatch.setattr(cells.FourObjectives, "action", MComCentralHandler.action)
    rng = np.random.default_rng(0)
    env = cells.Cells("small")
    returns = [baselines.run_episode(env, seed, lambda _: rng.integers(4, size=5)) for seed in range(12)]
    assert np.mean(returns, axis=0) == pytest.approx([-40, 56, -68, -34], abs=9)


def test_users_come_where_they_belong_one_change_at_a_time(cells: ModuleType) -> None:
    signals = np.array([[0.5, 0.2, -0.1], [0.5, 0.2, -0.1], [0.5, 0.2, -0.1], [-0.5, -0.2, -0.1], [0.1, 0.3, 0.2]])
    connected = np.array([[0, 0, 0], [0, 1, 1], [1, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=bool)

    def changes(*choices: int) -> list[int]:
        return cells.first_change(cells.belonging(3)[list(choices)], connected, signals).tolist()

    # At the first station alone: take it up, then drop the others, the weakest first; what is out of reach is
    # neither taken up nor dropped.
    assert changes(1, 1, 1, 1, 1) == [1, 1, 2, 0, 1]
    # Nowhere: drop what there is.
    assert changes(0, 0, 0, 0, 0) == [0, 2, 2, 0, 3]
    # At all: the strongest that is missing.
    assert changes(4, 4, 4, 4, 4) == [1, 1, 0, 0, 1]
    # At the third: out of reach of all but the last, who is there and has one too many.
    assert changes(3, 3, 3, 3, 3) == [0, 2, 2, 0, 2]


# --- choosing ------------------------------------------------------------------------------------------------


def test_three_points_are_chosen_by_floors_and_by_the_worst_objective(study: ModuleType) -> None:
    front = np.array(
        [
            [10.0, 70, -90, -9],  # best served, but too few of them
            [8, 100, -100, -10],  # busy hour: best quality within 98% of the best coverage
            [7, 99, -95, -8],
            [2, 90, -60, -5],  # everyday: no objective near its worst
            [-20, 80, -40, -7],  # night: fewest stations at 80% of the best coverage
            [-100, 0, 0, 0],
        ]
    )
    assert [point.row for point in study.recommend(front)] == [1, 3, 4]
    assert study.dominates(front, np.array([2, 90, -61, -5])).tolist() == [False, False, False, True, False, False]
    assert study.dominates(front, front[3]).sum() == 0
    assert sorted(study.spread_rows(front, [1, 1], 6)) == [0, 1, 2, 3, 4, 5]
    assert study.spread_rows(front, [1], 2) == [1, 5]


def test_words_have_an_engineer_s_units(study: ModuleType) -> None:
    assert study.in_units(np.array([50.0, 90, -50, -3]), 3) == pytest.approx([0.5, 90, -1.5, -3])
    assert study.table_row("rule", np.array([50.0, 90, -50, -0.0]), 4) == "| rule | +0.500 | 90.0 | 2.00 | 0.0 |  |"


# --- all of it -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def studied(on_path: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, Any]]:
    """A study of a run of a second: where it is, what it printed, and how it was trained."""
    import study

    place, printed, given = tmp_path_factory.mktemp("study"), io.StringIO(), {}
    train = ucb_moppo.train

    def train_tiny(problem: str, **settings: Any) -> ucb_moppo.Run:
        given.update(settings)
        return train(problem, quiet=True, **(TINY | {"horizon": 100, "executor": "local"} | settings))

    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(printed):
        patched.setattr(ucb_moppo, "train", train_tiny)
        patched.setattr(study, "HELD_OUT", 2)
        patched.setattr(study, "FRESH", 3)
        study.main(["--steps", "800", "--out", str(place)])
    return place, printed.getvalue(), given


def test_rules_and_front_meet_the_same_episodes(
    studied: tuple[Path, str, dict[str, Any]], baselines: ModuleType
) -> None:
    """A policy of a run, driven by the example through the held-out seeds, returns what the run says of it."""
    run = ucb_moppo.load(studied[0] / "run")
    row = int(np.flatnonzero(run.table()["on_front"] == 1)[0])
    env, policy = gymnasium.make(SMALL).unwrapped, run.evaluated_policy(row)
    returns = [baselines.run_episode(env, seed, policy) for seed in baselines.held_out_seeds(2)]
    np.testing.assert_allclose(np.mean(returns, axis=0), run.evaluated().returns[row], rtol=1e-9, atol=1e-9)


def test_the_study_from_end_to_end(studied: tuple[Path, str, dict[str, Any]]) -> None:
    place, printed, given = studied
    assert given["reference_point"] == (-100, 0, -100, -100)
    assert (given["steps"], given["held_out"]) == (800, 2)
    table = (place / "table.md").read_text(encoding="utf-8")
    assert table in printed
    assert "| doing nothing | -1.000 | 0.0 | 0.00 | 0.0 |" in table
    for words in ("random", "best signal", "all on", "front", "busy hour", "everyday", "night"):
        assert words in table
    for words in ("busy hour: best service", "everyday: nearest", "night: fewest stations", "Against best signal"):
        assert words in printed
    for name in ("front.png", "operating-points.png"):
        assert (place / name).read_bytes().startswith(b"\x89PNG")


def test_a_run_that_is_there_is_read(
    studied: tuple[Path, str, dict[str, Any]], study: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, table = studied[0], (studied[0] / "table.md").read_text(encoding="utf-8")
    monkeypatch.setattr(ucb_moppo, "train", lambda *_, **__: pytest.fail("trained again"))
    monkeypatch.setattr(study, "FRESH", 3)
    study.main(["--out", str(place)])
    assert (place / "table.md").read_text(encoding="utf-8") == table


def test_a_map_shows_who_sleeps(cells: ModuleType) -> None:
    import pictures

    env = cells.Cells("small", render_mode="rgb_array")
    env.reset(seed=0)
    place(env, (130, 130), (0, 0), (0, 0), (0, 0), (0, 0))
    env.step(np.array([1, 0, 0, 0, 0]))
    figure = pictures.new_figure(4, 4)
    axes = figure.subplots()
    pictures.draw_cells(axes, env.network)
    assert [text.get_text() for text in axes.texts] == ["A", "B asleep", "C asleep"]
    assert [circle.get_radius() for circle in axes.patches] == [68, 68, 68]
    assert (env.network.users[0].x, env.network.users[0].y) == (130, 130)
    picture = env.render()
    assert picture.shape == (400, 400, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10
