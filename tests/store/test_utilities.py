"""Runs of other utilities are read, chosen from, shown, deployed and exported like any other."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from sample_runs import rewrite
from trade_runs import train_trade

import ucb_moppo
from ucb_moppo.cli.display import summary_lines
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.report.load import load_data
from ucb_moppo.report.run_tables import summary_table
from ucb_moppo.store.layout import CONFIG
from ucb_moppo.store.picture import make_title
from ucb_moppo.training.forecast import run_policy
from ucb_moppo.training.reevaluate import evaluate_run
from ucb_moppo.viewer.choice import choose
from ucb_moppo.viewer.page_layout import status_text

CHEBYSHEV: dict[str, Any] = {"utility": "chebyshev", "ideal": (5.0, 5.0), "nadir": (0.0, 0.0), "rho": 0.0}
EVEN = np.array([0.5, 0.5])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    """By episode, of which there are two for each weight; measured by three others."""
    own = {"criterion": "esr", "episodes": 2, "held_out": 3, "steps": 800}
    return train_trade(tmp_path_factory.mktemp("utilities") / "run", **CHEBYSHEV, **own)


def test_a_preference_picks_by_the_mean_utility_of_the_episodes(run: ucb_moppo.Run) -> None:
    table = run.table()
    episodes = np.stack([[table[f"episode{e}_{j}"] for j in (1, 2)] for e in (1, 2)]).transpose(2, 0, 1)
    by_hand = [np.mean([min(episode) / 5 for episode in row]) for row in episodes]
    np.testing.assert_allclose(run.values(EVEN), by_hand)
    row = int(np.argmax(by_hand))
    policy = run.policy(EVEN, conditioning="evaluated")
    np.testing.assert_array_equal(policy.weight, run.evaluated().weights[row])
    assert choose(load_data(run.path), EVEN).row == row


def test_the_expected_utility_of_the_table_is_what_stages_measured(run: ucb_moppo.Run) -> None:
    found = run.summary["held_out"]["selection"]["expected_utility"]
    preferences = np.stack([np.linspace(0, 1, 100), 1 - np.linspace(0, 1, 100)], axis=1)
    assert np.mean([run.values(p).max() for p in preferences]) == pytest.approx(found)


def test_everything_that_shows_a_run_names_its_utility(run: ucb_moppo.Run) -> None:
    words = "chebyshev, of each episode's return (ESR)"
    assert f"utility: {words}" in summary_lines(run)
    assert words in make_title(run.summary)
    assert words.replace("'", "&#x27;") in run._repr_html_()
    data = load_data(run.path)
    assert ("utility", words) in summary_table(data).rows
    assert words in status_text(data, None)
    assert (run.summary["utility"], run.summary["criterion"]) == ("chebyshev", "esr")


def test_an_episode_keeps_account_of_what_a_policy_goes_by(run: ucb_moppo.Run) -> None:
    policy = run.policy(EVEN)
    with pytest.raises(ConfigError, match=r"or let `episode = policy.episode\(\)` keep account"):
        policy([0.1])
    with pytest.raises(ConfigError, match=r"accrued has shape \(3,\)"):
        policy([0.1], accrued=[1, 2, 3], time=0)
    episode = policy.episode()
    env = gymnasium.make("probe_envs:probe/Trade-v0")
    observation, _ = env.reset(seed=1)
    accrued = np.zeros(2)
    for time in range(3):
        action = episode(observation)
        np.testing.assert_array_equal(action, policy(observation, accrued=accrued, time=time))
        observation, reward, *_ = env.step(action)
        episode.observe(reward)
        accrued = accrued + reward
    np.testing.assert_array_equal(episode.accrued, accrued)
    with pytest.raises(ConfigError, match="there are 2 objectives"):
        episode.observe(1.0)
    # A batch has an account each.
    batch = policy(np.zeros((2, 1)), accrued=[[0, 0], [3, 2]], time=[0, 3])
    np.testing.assert_allclose(batch[1], policy([0.0], accrued=[3, 2], time=3), rtol=1e-5)


def test_what_is_evaluated_is_what_is_deployed(run: ucb_moppo.Run) -> None:
    """Fresh episodes of a row, stepped by hand, return what the forecast says."""
    found = run_policy(run, 0, 2)
    policy = run.evaluated_policy(0)
    assert found.returns.shape == (2, 2)
    rows = policy.flatten(np.zeros((1, 1)), accrued=[5.0, 0.0], time=5)
    # Behind the observation: 5/5 and 0/5 of the way to the ideal, and all of the horizon.
    np.testing.assert_allclose(rows, [[0, 1, 0, 1]])


def test_a_saved_and_an_exported_policy_do_the_same(run: ucb_moppo.Run, tmp_path: Path) -> None:
    policy = run.policy(EVEN)
    told: dict[str, Any] = {"accrued": [1.0, 2.0], "time": 2}
    expected = policy([0.2], **told)
    loaded = ucb_moppo.load(policy.save(tmp_path / "policy.safetensors"))
    assert isinstance(loaded, ucb_moppo.Policy)
    np.testing.assert_array_equal(loaded([0.2], **told), expected)
    folder = policy.export(tmp_path / "folder")
    act, extend = import_file(folder / "act.py").act, import_file(folder / "accrue.py").extend
    np.testing.assert_allclose(act(extend([0.2], **told)), expected, rtol=1e-5)
    rows = extend([[0.2], [0.2]], accrued=[[1.0, 2.0], [0.0, 0.0]], time=[2, 0])
    np.testing.assert_allclose(act(rows)[0], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="cannot reshape"):
        act([0.2])
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(policy.export(tmp_path / "policy.onnx"))
    action = session.run(None, {"observation": policy.flatten([0.2], **told)})[0]
    np.testing.assert_allclose(action[0], expected, rtol=1e-4)


def import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_run_is_evaluated_again_by_its_own_utility(run: ucb_moppo.Run, tmp_path: Path) -> None:
    again = evaluate_run(run.path, None, out=tmp_path / "front.csv")
    assert again["expected_utility"] == pytest.approx(run.summary["expected_utility"])
    assert (tmp_path / "front.csv").read_bytes() == (run.path / "front.csv").read_bytes()
    with pytest.raises(ConfigError, match="taken of undiscounted returns"):
        evaluate_run(run.path, None, discount=0.9)


def test_a_choice_with_a_forecast(run: ucb_moppo.Run) -> None:
    decision = run.choose(knee=True)
    assert decision.forecast(episodes=3).episodes == 3


def test_sampled_actions_are_drawn_as_in_training(tmp_path: Path) -> None:
    run = train_trade(tmp_path / "run", **CHEBYSHEV, actions="sampled")
    policy = run.policy(EVEN)
    drawn = np.array([policy.sample([0.0], np.random.default_rng(i))[0] for i in range(200)])
    spread = np.exp(policy.tensors["actor.log_std"][0])
    mean = policy([0.0])[0]
    # Clipped to [−1, 1], a normal distribution of deviation 1 about 0 has half its draws within 0.674 of it.
    assert np.mean(np.abs(drawn - mean) < 0.674 * spread) == pytest.approx(0.5, abs=0.12)
    assert load_data(run.path).summary["criterion"] == "ser"


def test_a_utility_of_ones_own_is_trained_and_read_where_its_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_utility_lab.py").write_text(
        "import numpy as np\n\ndef product(returns, preference):\n"
        "    return (np.maximum(np.asarray(returns) + 20, 1e-3) ** preference).prod(-1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = train_trade(tmp_path / "run", utility="own_utility_lab:product")
    assert run.goal.utility(np.array([5.0, -4.0]), EVEN) == pytest.approx(np.sqrt(25 * 16))
    assert run.policy(EVEN).spec.accrued_scales == ()
    monkeypatch.delitem(sys.modules, "own_utility_lab")
    weights = run.evaluated().weights
    assert choose(load_data(run.path), weights[2]).row == 2
    assert "own_utility_lab" not in sys.modules
    with pytest.raises(ConfigError, match="`import own_utility_lab` first"):
        run.policy(EVEN)


def test_a_goal_that_makes_no_sense_is_refused_as_damage(run: ucb_moppo.Run, tmp_path: Path) -> None:
    other = train_trade(tmp_path / "run", **CHEBYSHEV)
    config = json.loads((other.path / CONFIG).read_text())
    config["goal"]["ideal"] = "high"
    rewrite(other.path, CONFIG, json.dumps(config).encode())
    with pytest.raises(RunFormatError, match="does not describe a utility"):
        ucb_moppo.load(other.path).policy(EVEN)  # type: ignore[union-attr]
