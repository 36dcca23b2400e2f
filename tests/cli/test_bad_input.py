"""Bad input: a clear error that names the value and the remedy, before anything is trained or written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from trade_runs import PROBLEM, SETTINGS, trade_arguments, train_trade

import ucb_moppo
from ucb_moppo.cli import main as cli
from ucb_moppo.engine.evaluation import evaluate
from ucb_moppo.engine.rollout import Collector
from ucb_moppo.envs.adapter import GymBatch
from ucb_moppo.errors import ConfigError, EnvironmentFault
from ucb_moppo.policy.actors import Actors
from ucb_moppo.policy.networks import init_params
from ucb_moppo.policy.normaliser import Statistics

TRADE = {"problem": PROBLEM}

# What is given (beside SETTINGS), and what the message has to say: the value and the remedy.
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "misspelt problem": (
        {"problem": "Hoper-v2"},
        ["unknown problem 'Hoper-v2'", "did you mean", "Hopper-v2"],
    ),
    "misspelt MO-Gymnasium id": (
        {"problem": "deepsea-treasure-v0"},
        ["unknown problem 'deepsea-treasure-v0'", "did you mean", "deep-sea-treasure-v0"],
    ),
    "unknown module": (
        {"problem": "no_such_package:env-v0"},
        ["unknown problem 'no_such_package:env-v0'", "No module named 'no_such_package'"],
    ),
    "unknown id of a module": (
        {"problem": "probe_envs:probe/Trad-v0"},
        ["unknown problem 'probe_envs:probe/Trad-v0'", "Did you mean: `Trade`"],
    ),
    "scalar reward": (
        {"problem": "probe_envs:probe/Scalar-v0"},
        ["probe/Scalar-v0 has no reward_space", "pays a single reward", "two or more objectives"],
    ),
    "scalar reward of Gymnasium's own": (
        {"problem": "gymnasium:CartPole-v1"},
        ["CartPole-v1 has no reward_space", "pays a single reward"],
    ),
    "scalar reward in disguise": (
        {"problem": "probe_envs:probe/SecretScalar-v0"},
        ["declares 2 objectives but a step paid 1.0", "make its reward_space and its rewards agree"],
    ),
    "reward dimension disagrees": (
        {"problem": "probe_envs:probe/Disagreeing-v0"},
        ["declares 3 objectives but a step paid [", "make its reward_space and its rewards agree"],
    ),
    "no policies": (TRADE | {"policies": 0}, ["policies is 0", "at least 1"]),
    "no candidates": (TRADE | {"candidates": 0}, ["candidates is 0", "at least 1"]),
    "no active weights": (TRADE | {"active": 0}, ["active is 0", "at least 1"]),
    "negative probes": (TRADE | {"probes": -3}, ["probes is -3", "at least 1"]),
    "more active weights than candidates": (
        TRADE | {"active": 10},
        ["active is 10", "only 8 candidates", "lower --active or raise --candidates"],
    ),
    "environments that cannot share the samples": (
        TRADE | {"active": 3},
        ["samples (40) must be a multiple of active (3)"],
    ),
    "more sub-spaces than the simplex is divided into": (
        TRADE | {"policies": 1_000_000},
        ["policies is 1000000", "candidates 8", "lower --policies or --candidates"],
    ),
    "steps too few for one iteration": (
        TRADE | {"steps": 79},
        ["steps is 79", "too few for one iteration", "2 policies × 40 samples need --steps 80 at least"],
    ),
    "reference point of another problem": (
        TRADE | {"reference_point": (0.0, 0.0, 0.0)},
        ["(0.0, 0.0, 0.0)", "2"],
    ),
    "negative seed": (TRADE | {"seed": -1}, ["seed is -1"]),
    "discount above one": (TRADE | {"gamma": 1.5}, ["gamma is 1.5", "[0, 1]"]),
    "no learning": (TRADE | {"learning_rate": 0.0}, ["learning_rate is 0.0", "positive"]),
}
# Settings that no option can give, or that the command line refuses in words of its own.
ONLY_PYTHON: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown method": (TRADE | {"method": "uct"}, ["unknown method 'uct'", "did you mean ucb?"]),
    "unknown preset": (TRADE | {"preset": "qick"}, ["unknown preset 'qick'", "did you mean quick?"]),
    "unknown selection": (TRADE | {"selection": "topn"}, ["unknown selection 'topn'", "did you mean top_n?"]),
    "misspelt setting": (TRADE | {"polices": 3}, ["unknown setting 'polices'", "did you mean policies"]),
    "pivots off the simplex": (
        TRADE | {"pivots": ((0.7, 0.7), (0.2, 0.8))},
        ["weight [0.7, 0.7] does not sum to 1", "divide it by its sum"],
    ),
    "pivots that disagree with policies": (
        TRADE | {"pivots": ((0.1, 0.9), (0.5, 0.5), (0.9, 0.1))},
        ["policies is 2 but 3 pivots are given", "leave --policies out"],
    ),
    "two pivots in one place": (
        TRADE | {"pivots": ((0.5, 0.5), (0.5, 0.5))},
        ["pivots 0 and 1 are both [0.5, 0.5]", "a pivot of its own"],
    ),
}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, which bad input leaves empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    return train_trade(tmp_path_factory.mktemp("runs") / "run")


def refused(nowhere: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command line says when it refuses ``arguments``."""
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert not list(nowhere.iterdir())
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err


@pytest.mark.parametrize("case", CASES | ONLY_PYTHON)
def test_python_refuses(case: str, nowhere: Path) -> None:
    settings, parts = (CASES | ONLY_PYTHON)[case]
    with pytest.raises(ConfigError) as fault:
        ucb_moppo.train(out=nowhere / "run", quiet=True, **SETTINGS | settings)
    assert all(part in str(fault.value) for part in parts), str(fault.value)
    assert not list(nowhere.iterdir())


@pytest.mark.parametrize("case", CASES)
def test_command_line_refuses(case: str, nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, parts = CASES[case]
    settings = SETTINGS | settings
    arguments = ["train", settings.pop("problem")]
    for name, value in settings.items():
        values = value if isinstance(value, tuple) else (value,)
        arguments += [f"--{name.replace('_', '-')}", *map(str, values)]
    message = refused(nowhere, capsys, *arguments)
    assert message.startswith("ucb-moppo: ")
    assert message.count("\n") == 1  # a line, not a traceback
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tran", "Hopper-v2"], ["unknown command 'tran'", "did you mean train?"]),
        (["train"], ["name a problem", "ucb-moppo train Hopper-v2", "ucb-moppo problems"]),
        (["train", "Hopper-v2", "--method", "uct"], ["unknown method 'uct'", "did you mean ucb?"]),
        (["train", "Hopper-v2", "--preset", "qick"], ["'qick'", "--preset", "tuned", "paper", "quick"]),
        (["train", "Hopper-v2", "--stepz", "5"], ["--stepz", "Perhaps you meant", "--steps"]),
        (["train", "Hopper-v2", "--steps", "many"], ["many", "--steps"]),
        (["train", "--config", "none.json"], ["--config none.json cannot be read", "No such file"]),
        (["show", "none"], ["none does not exist; give a run directory"]),
        (["evaluate", "none"], ["none does not exist; give a run directory"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_command_line_refuses_in_its_own_words(
    arguments: list[str], parts: list[str], nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = " ".join(refused(nowhere, capsys, *arguments).replace("│", " ").split())
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{", ["cannot be read as JSON"]),
        ("[" * 100_000, ["cannot be read as JSON"]),
        ("[1, 2]", ["holds a list", "must be an object of settings"]),
        ('{"steps": 5}', ["names no 'problem'"]),
        ('{"problem": "Hopper-v2", "stepz": 5}', ["unknown setting 'stepz'", "did you mean steps"]),
    ],
)
def test_bad_config_files_are_refused(
    text: str, parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(SystemExit) as end:
        cli.main(["train", "--config", str(file), "--out", str(tmp_path / "run")])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert all(part in message for part in parts), message
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


# --- an output directory that is taken ---------------------------------------------------------------------


def contents(path: Path) -> dict[str, bytes]:
    return {str(entry): entry.read_bytes() for entry in path.rglob("*") if entry.is_file()}


def test_a_directory_that_holds_a_run_stays_as_it_is(
    run: ucb_moppo.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run.path)
    with pytest.raises(ConfigError, match=r"already holds a run; choose another --out, .*delete it first"):
        train_trade(run.path, seed=1)
    with pytest.raises(SystemExit) as end:
        cli.main(trade_arguments("--out", str(run.path), "--seed", "1"))
    assert end.value.code == 2
    assert "already holds a run; choose another --out" in capsys.readouterr().err
    assert contents(run.path) == before


def test_a_path_that_cannot_be_written_has_no_run_to_resume(
    nowhere: Path, run: ucb_moppo.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "file").write_text("")
    for words in (
        ["export", str(run.path), "--weight", "0.5", "0.5", "--out"],
        ["report", str(run.path), "--out"],
        trade_arguments("--out"),
    ):
        with pytest.raises(SystemExit):
            cli.main([*words, str(nowhere / "file/new")])
        said = capsys.readouterr().err
        assert "check the path and its permissions" in said
        assert "resume" not in said


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.txt is a file; --out names a directory"):
        train_trade(file)
    assert contents(tmp_path) == {str(file): b"mine"}


# --- preferences -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preference", "message"),
    [
        ([0.7, 0.7], r"weight \[0\.7, 0\.7\] does not sum to 1: divide it by its sum"),
        ([1.2, -0.2], r"weight \[1\.2, -0\.2\] has a negative entry: every entry must be >= 0"),
        ([math.nan, 1.0], r"weight \[nan, 1\.0\] is not finite"),
        ([0.5, 0.3, 0.2], r"shape \(3,\).*give one entry per objective \(2\)"),
        (0.5, r"shape \(\).*give one entry per objective \(2\)"),
        ("speed", r"weights 'speed' are not numbers"),
    ],
)
def test_preferences_off_the_simplex_are_refused(preference: Any, message: str, run: ucb_moppo.Run) -> None:
    with pytest.raises(ConfigError, match=message):
        run.policy(preference)


def test_conditioning_is_one_of_two(run: ucb_moppo.Run) -> None:
    with pytest.raises(ConfigError, match="conditioning is 'nearest'; choose 'preference' or 'evaluated'"):
        run.policy([0.5, 0.5], conditioning="nearest")


# --- rewards that are no numbers ---------------------------------------------------------------------------


def test_nan_reward_ends_the_run_before_it_is_written(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The third step of every episode pays NaN: the trial that measures the speed meets it at step 2, from 0."""
    arguments = trade_arguments("--out", "run", "--quiet")
    arguments[1] = "probe_envs:probe/NotANumber-v0"
    message = refused(nowhere, capsys, *arguments)
    assert "policy 0 in environment 0 at its training step 2" in message
    assert "nan" in message
    assert "must return 2 finite rewards" in message


def test_infinite_reward_while_training_names_policy_and_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``Wearing`` pays infinity at the 25th step of its life. An environment takes 10 steps an iteration, so
    that falls into the third. The first environment has one step behind it, taken to see what it pays, so it is
    the first to fail, at step 23 (from 0); the trial of the speed and evaluation have environments of their own.
    """
    out = tmp_path / "run"
    arguments = trade_arguments("--out", str(out), "--quiet")
    arguments[1] = "probe_envs:probe/Wearing-v0"
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert "policy 0 in environment 0 at its training step 23" in message
    assert "inf" in message
    # What was found until then stands, and does not claim to be whole: evaluations 0 to 2 of 5.
    run = ucb_moppo.load(out)
    assert isinstance(run, ucb_moppo.Run)
    assert run.summary["finished"] is False
    assert [line["stage"] for line in run.metrics()] == [0, 1, 2]


def poisoned_batch() -> GymBatch:
    """Four counting environments, of which the last pays NaN at its third step."""
    batch = GymBatch("probe_envs:probe/Counter-v0", 4)
    batch._envs[3] = gymnasium.make("probe/NotANumber-v0", disable_env_checker=True)
    return batch


def untrained_actors() -> Actors:
    """Two policies for the counting environments."""
    params = init_params(
        np.random.default_rng(0),
        observation_size=2,
        num_objectives=2,
        action_size=3,
        discrete=True,
        cells=4,
        log_std=0.0,
    )["actor"]
    stats = Statistics(np.zeros((2, 2), np.float32), np.ones((2, 2), np.float32), np.zeros(2, np.float32))
    return Actors({name: np.stack([array, array]) for name, array in params.items()}, stats)


def test_collector_names_the_policy_whose_environment_it_was() -> None:
    """Policies 5 and 9 have two environments each: the last of the four is environment 1 of policy 9."""
    collector = Collector(poisoned_batch(), (5, 9), seed=0)
    weights, noise = np.full((2, 2, 2), 0.5), np.zeros((5, 2, 2, 3), np.float32)
    with pytest.raises(EnvironmentFault, match=r"policy 9 in environment 1 at its training step 2: .*nan.*step 3"):
        collector.collect(untrained_actors(), weights, noise)


def test_evaluation_names_the_policy_and_the_weight() -> None:
    weights = np.array([[[0.1, 0.9], [0.2, 0.8]], [[0.7, 0.3], [0.6, 0.4]]])
    with pytest.raises(EnvironmentFault, match=r"policy 1 under weight \[0\.6, 0\.4\]: .*nan.*step 3"):
        evaluate(untrained_actors(), weights, poisoned_batch())


@pytest.mark.parametrize("option", ["--total-timesteps 5", "--total_timesteps=5"])
def test_an_option_of_another_library_is_answered_with_its_name_here(option, nowhere, capsys) -> None:
    told = refused(nowhere, capsys, "train", "Swimmer-v2", *option.split())
    assert told == "ucb-moppo: unknown option --total-timesteps; here it is --steps\n"
