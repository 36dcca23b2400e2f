"""Training from Python, the run directory it leaves, and policies that act with numpy alone."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from safetensors.numpy import load_file
from trade_runs import EVALUATION_STEPS, NUM_STAGES, PROBLEM, SETTINGS, train_trade

import ucb_moppo
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.policy.networks import greedy_action
from ucb_moppo.seeding import EVALUATION, EVALUATION_SEED, episode_seed
from ucb_moppo.spec import ActionSpec
from ucb_moppo.training.reevaluate import load_actors

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    return train_trade(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def choosing(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    """A run on choices: observations are 10..13 and actions 5 or 6."""
    path = tmp_path_factory.mktemp("runs") / "choices"
    return train_trade(path, "probe_envs:probe/Number-v0", steps=160)


# --- the front ---------------------------------------------------------------------------------------------


def test_train_returns_the_run_on_disk(run: ucb_moppo.Run) -> None:
    assert isinstance(run, ucb_moppo.Run)
    assert run.config["problem"] == PROBLEM
    assert run.summary["finished"] is True
    again = ucb_moppo.load(run.path)
    assert isinstance(again, ucb_moppo.Run)
    assert again.summary == run.summary
    np.testing.assert_array_equal(again.front().returns, run.front().returns)


def test_front_is_what_nothing_evaluated_dominates(run: ucb_moppo.Run) -> None:
    everything, front = run.evaluated(), run.front()
    assert everything.returns.shape == everything.weights.shape == (2 * 3, 2)  # K · P rows, m columns
    np.testing.assert_array_equal(everything.policy, [0, 0, 0, 1, 1, 1])
    # The slow and obvious version: a row is out if another is no worse anywhere and better somewhere.
    rows = everything.returns
    dominated = [any((other >= row).all() and (other > row).any() for other in rows) for row in rows]
    np.testing.assert_array_equal(front.returns, rows[~np.array(dominated)])
    np.testing.assert_array_equal(front.weights, everything.weights[~np.array(dominated)])
    np.testing.assert_array_equal(front.policy, everything.policy[~np.array(dominated)])


def test_returns_are_what_the_policy_earns_in_the_environment(run: ucb_moppo.Run) -> None:
    """Deployed in Gymnasium's own environment, from evaluation's initial state, a policy earns its row."""
    everything = run.evaluated()
    env = gymnasium.make("probe_envs:probe/Trade-v0", disable_env_checker=True)
    for row, weight in enumerate(everything.weights):
        deployed = ucb_moppo.Policy(
            run.spec,
            int(everything.policy[row]),
            weight,
            everything.returns[row],
            {name: array[everything.policy[row]] for name, array in run.tensors().items()},
        )
        observation, _ = env.reset(seed=episode_seed(EVALUATION_SEED, EVALUATION, 0))
        earned, done = np.zeros(2), False
        while not done:
            observation, reward, terminated, truncated, _ = env.step(deployed(observation))
            earned, done = earned + reward, terminated or truncated
        # Only the order of float32 sums differs between one observation and a batch.
        np.testing.assert_allclose(earned, everything.returns[row], rtol=1e-5)


# --- policies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preference", [[0.7, 0.3], [1.0, 0.0], [0.0, 1.0], [0.25, 0.75]])
def test_policy_is_the_one_of_best_utility_conditioned_on_the_preference(
    run: ucb_moppo.Run, preference: list[float]
) -> None:
    everything = run.evaluated()
    utilities = [preference[0] * first + preference[1] * second for first, second in everything.returns]
    best = int(np.argmax(utilities))

    policy = run.policy(preference)
    assert policy.index == everything.policy[best]
    np.testing.assert_array_equal(policy.weight, preference)
    np.testing.assert_array_equal(policy.expected_returns, everything.returns[best])

    as_evaluated = run.policy(preference, conditioning="evaluated")
    assert as_evaluated.index == policy.index
    np.testing.assert_array_equal(as_evaluated.weight, everything.weights[best])


def test_policy_acts_as_the_trainer_does(run: ucb_moppo.Run) -> None:
    policy = run.policy([0.7, 0.3])
    observations = np.linspace(-0.5, 0.5, 7)[:, None]
    # What evaluation does, for both policies [K, N, ...] at once.
    weight = np.broadcast_to(np.float32([0.7, 0.3]), (2, 7, 2))
    actors = load_actors(run)
    output = greedy_action(actors(np.stack([observations] * 2), weight), discrete=False)
    expected = np.clip(output[policy.index], -1, 1)

    batch = policy(observations)
    assert batch.shape == (7, 1)
    np.testing.assert_allclose(batch, expected, rtol=1e-6, atol=1e-7)
    assert np.ptp(batch) > 0  # it looks at the observation
    for observation, action in zip(observations, batch, strict=True):
        one = policy(observation)
        assert one.shape == (1,)
        np.testing.assert_allclose(one, action, rtol=1e-6, atol=1e-7)
    assert policy(observations[:1]).shape == (1, 1)  # a batch of one stays a batch


def test_actions_come_in_the_range_of_the_environment(run: ucb_moppo.Run) -> None:
    """[-1, 1] of the actor is [-2, 10] outside: with a head of zeros the middle, far out the bounds."""
    policy = run.policy([0.5, 0.5])
    spec = dataclasses.replace(policy.spec, action=ActionSpec(False, 1, (-2.0,), (10.0,)))
    for bias, expected in ((0, 4), (-0.5, 1), (0.25, 5.5), (-9, -2), (9, 10)):
        head = {"actor.head.kernel": policy.tensors["actor.head.kernel"] * 0, "actor.head.bias": np.float32([bias])}
        still = dataclasses.replace(policy, spec=spec, tensors=policy.tensors | head)
        np.testing.assert_array_equal(still([0.1]), [expected])


def test_choices_are_the_environments_own_numbers(choosing: ucb_moppo.Run) -> None:
    policy = choosing.policy([0.5, 0.5])
    chosen = [policy(observation) for observation in (10, 11, 12, 13)]
    assert all(type(choice) is int and choice in (5, 6) for choice in chosen)
    np.testing.assert_array_equal(policy(np.arange(10, 14)), chosen)


@pytest.mark.parametrize("preference", [[0.7, 0.3], [0.0, 1.0]])
def test_policy_saved_and_loaded_is_the_same(run: ucb_moppo.Run, tmp_path: Path, preference: list[float]) -> None:
    policy = run.policy(preference)
    loaded = ucb_moppo.load(policy.save(tmp_path / "policy.safetensors"))
    assert isinstance(loaded, ucb_moppo.Policy)
    assert (loaded.spec, loaded.index) == (policy.spec, policy.index)
    np.testing.assert_array_equal(loaded.weight, policy.weight)
    np.testing.assert_array_equal(loaded.expected_returns, policy.expected_returns)
    observations = np.random.default_rng(0).normal(size=(20, 1))
    np.testing.assert_array_equal(loaded(observations), policy(observations))


DEPLOY = """
import json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    names = {"jax", "jaxlib", "optax", "mujoco", "gymnasium", "mo_gymnasium", "sklearn", "scipy", "moocore",
             "matplotlib", "tyro", "rich"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Absent())
import numpy as np
import ucb_moppo

observations = np.linspace(-0.5, 0.5, 5)[:, None]
run, policy = ucb_moppo.load(sys.argv[1]), ucb_moppo.load(sys.argv[2])
assert not Absent.names & {name.partition(".")[0] for name in sys.modules}
print(json.dumps({
    "front": run.front().returns.tolist(),
    "summary": run.summary["hypervolume"],
    "run": run.policy([0.7, 0.3])(observations).tolist(),
    "file": policy(observations).tolist(),
}))
"""


def test_deploying_needs_numpy_safetensors_and_msgspec_alone(run: ucb_moppo.Run, tmp_path: Path) -> None:
    """In a process where the trainer's packages cannot be imported, runs and policies load and act alike."""
    policy = run.policy([0.7, 0.3])
    file = policy.save(tmp_path / "policy.safetensors")
    command = [sys.executable, "-c", DEPLOY, str(run.path), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = policy(np.linspace(-0.5, 0.5, 5)[:, None]).tolist()
    assert found["run"] == found["file"] == expected
    assert found["front"] == run.front().returns.tolist()
    assert found["summary"] == run.summary["hypervolume"]


# --- the run directory -------------------------------------------------------------------------------------


def test_directory_holds_open_formats_and_nothing_else(run: ucb_moppo.Run) -> None:
    names = {path.name for path in run.path.iterdir() if not path.name.startswith(".")}
    assert names == {
        "config.json",
        "metrics.jsonl",
        "evaluations.csv",
        "front.csv",
        "policies.safetensors",
        "policies.json",
        "summary.json",
        "manifest.json",
        "front.png",
        "checkpoints",
    }
    assert (run.path / "front.png").read_bytes().startswith(b"\x89PNG")
    for path in (path for path in run.path.rglob("*") if path.is_file()):
        if path.suffix == ".safetensors":
            assert load_file(path), path.name
        else:  # a pickle begins with b"\x80", a zip of them with b"PK"
            assert not path.read_bytes().startswith((b"\x80", b"PK")), path.name


def test_config_says_everything_that_was_decided(run: ucb_moppo.Run) -> None:
    config = json.loads((run.path / "config.json").read_text())
    for name, value in SETTINGS.items():
        holders = [part for part in (config, config["ppo"], config["search"]) if name in part]
        assert [part[name] for part in holders] == [value], name
    assert config["horizon"] == 5
    # Below any return: 5 steps of the reward space's lowest, −3.
    assert config["reference_point"] == [-15.0, -15.0]
    assert (config["search"]["stage_iterations"], config["search"]["warmup"]) == (1, 1)
    undecided = [name for part in (config, config["ppo"], config["search"]) for name in part if part[name] is None]
    # No cluster; pivots spread evenly, which the manifest of the decomposition is.
    assert undecided == ["ray_address", "pivots"]


def test_metrics_have_a_line_per_stage(run: ucb_moppo.Run) -> None:
    lines = run.metrics()
    assert [line["stage"] for line in lines] == list(range(NUM_STAGES + 1))
    assert [line["iteration"] for line in lines] == [0, 1, 2, 3, 4, 5]
    assert [line["training_steps"] for line in lines] == [0, 80, 160, 240, 320, 400]
    assert [line["evaluation_steps"] for line in lines] == [30, 60, 90, 120, 150, 180]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    for line in lines:
        assert {"hypervolume", "expected_utility", "sparsity", "cardinality", "learning", "surrogate"} <= set(line)
    assert lines[0]["selected_weights"] is None
    pivots = [[[0.25, 0.75]] * 4, [[0.75, 0.25]] * 4]
    assert lines[1]["selected_weights"] == pivots  # the warm-up's
    for line in lines[2:]:
        selected = np.array(line["selected_weights"])
        assert selected.shape == (2, 4, 2)
        np.testing.assert_allclose(selected.sum(-1), 1)
        assert all(len(np.unique(policy[:, 0])) == 4 for policy in selected)  # without replacement
        surrogate = line["surrogate"]
        assert surrogate["beta"] == pytest.approx(np.sqrt(np.log(2 * (line["stage"] - 1)) / (line["stage"] - 1)))
        assert np.shape(surrogate["predicted_change"]) == (2, 2)
        assert np.shape(surrogate["absolute_error"]) == (2,)


def test_front_table_has_every_evaluated_pair(run: ucb_moppo.Run) -> None:
    with (run.path / "front.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    header = ["policy", "weight_1", "weight_2", "return_1", "return_2", "on_front"]
    assert list(rows[0]) == header
    assert len(rows) == 6
    assert {row["on_front"] for row in rows} <= {"true", "false"}
    with (run.path / "evaluations.csv").open(newline="") as file:
        history = list(csv.DictReader(file))
    assert list(history[0]) == ["stage", *header[:-1]]
    assert len(history) == 6 * (NUM_STAGES + 1)
    for row, last in zip(rows, history[-6:], strict=True):
        assert [row[name] for name in header[:-1]] == [last[name] for name in header[:-1]]


def test_summary_says_what_was_found_and_what_it_cost(run: ucb_moppo.Run) -> None:
    summary, last = run.summary, run.metrics()[-1]
    for name in ("hypervolume", "expected_utility", "sparsity", "cardinality", "seconds"):
        assert summary[name] == last[name]
    assert summary["cardinality"] == len(run.front().returns)
    assert (summary["training_steps"], summary["evaluation_steps"]) == (400, EVALUATION_STEPS)
    assert (summary["problem"], summary["method"], summary["seed"]) == (PROBLEM, "ucb", 0)
    assert summary["policies"] == 2
    # Actor: (1+2)·8+8 + 8·8+8 + (8+2)·1+1 + 1 (log-std) = 116; critic: the same layers, 2 outputs: 126.
    assert summary["parameters"] == 2 * (116 + 126)
    assert summary["versions"]["numpy"] == np.__version__
    assert {"python", "jax", "mujoco", "mo-gymnasium", "ucb-moppo"} <= set(summary["versions"])


def test_manifest_vouches_for_every_file(run: ucb_moppo.Run) -> None:
    manifest = json.loads((run.path / "manifest.json").read_text())
    for name in ("config.json", "metrics.jsonl", "front.csv", "summary.json", "policies.safetensors"):
        data = (run.path / name).read_bytes()
        # Of a file that is replaced, the digest before it stands beside the newest.
        entries = manifest["files"][name]
        assert {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} in (
            entries if isinstance(entries, list) else [entries]
        ), name


def test_parameters_are_readable_by_any_reader_of_safetensors(run: ucb_moppo.Run) -> None:
    tensors = load_file(run.path / "policies.safetensors")
    assert tensors["actor.hidden1.kernel"].shape == (2, 1 + 2, 8)  # policies, observation ⊕ weight, cells
    assert tensors["actor.head.kernel"].shape == (2, 8 + 2, 1)  # the weight enters again
    assert tensors["critic.head.bias"].shape == (2, 2)  # a value per objective
    assert all(np.isfinite(array).all() for array in tensors.values())


# --- faults ------------------------------------------------------------------------------------------------


def test_loading_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="nowhere does not exist; give a run directory or a policy file"):
        ucb_moppo.load(tmp_path / "nowhere")
    with pytest.raises(RunFormatError, match=r"holds no run: there is no config\.json"):
        ucb_moppo.load(tmp_path)
    (tmp_path / "text.safetensors").write_text("not a policy")
    with pytest.raises(RunFormatError, match=r"text\.safetensors is not a safetensors file"):
        ucb_moppo.load(tmp_path / "text.safetensors")


def test_policy_refuses_observations_of_another_problem(run: ucb_moppo.Run) -> None:
    policy = run.policy([0.5, 0.5])
    wide = dataclasses.replace(policy, spec=dataclasses.replace(policy.spec, observation_size=3))
    with pytest.raises(ConfigError, match=r"shape \(4,\) was given; .*Trade-v0 shows 3 numbers"):
        wide(np.zeros(4))


def test_policy_file_needs_its_suffix(run: ucb_moppo.Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"saved as a \.safetensors file, not as 'policy\.pt'"):
        run.policy([0.5, 0.5]).save(tmp_path / "policy.pt")
    assert not list(tmp_path.iterdir())
