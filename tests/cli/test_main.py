"""The command line: the same runs as from Python, help that covers every option, output for people and programs."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import io
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problem_sizes import MO_PROBLEM_SIZES, PROBLEM_SIZES
from rich.console import Console
from sample_runs import SampleRun, rewrite
from trade_runs import EVALUATION_STEPS, NUM_STAGES, PROBLEM, trade_arguments, train_trade

from ucb_moppo.algos.ppo.ppo_settings import PPOSettings
from ucb_moppo.cli import main as cli
from ucb_moppo.cli.progress import Bar
from ucb_moppo.config import (
    MoppoConfig,
    MoppoSettings,
    RunSettings,
    default_settings,
    from_json,
    make_settings,
    override,
    resolve,
)
from ucb_moppo.engine.learner import Plan, StageRecord
from ucb_moppo.engine.shard import Timing
from ucb_moppo.engine.trainer import Trainer
from ucb_moppo.envs import PROBLEMS, make_spec
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.goal_settings import GoalSettings
from ucb_moppo.search.search_settings import SearchSettings
from ucb_moppo.store.run import Run
from ucb_moppo.training.reporter import format_seconds

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_trade(tmp_path_factory.mktemp("runs") / "run")


def without_time(path: Path) -> list[str]:
    """``metrics.jsonl`` but for the seconds."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [json.dumps({n: v for n, v in line.items() if not n.endswith("seconds")}) for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    for name in ("config.json", "front.csv", "evaluations.csv", "policies.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert without_time(one) == without_time(other)


# --- train -------------------------------------------------------------------------------------------------


def test_the_installed_command_is_this_one() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="ucb-moppo")
    assert script.load() is cli.main


def test_train_prints_plain_lines_and_what_it_found(run: Run, tmp_path: Path, capsys: Capture) -> None:
    """Nothing here is a terminal: a line per stage on stderr, the result on stdout, no control characters."""
    out = tmp_path / "run"
    cli.main(trade_arguments("--out", str(out)))

    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert lines[0] == f"ucb on {PROBLEM}: 2 policies, seed 0, {NUM_STAGES} stages, writing to {out}"
    assert lines[1].startswith(f"400 training steps and up to {EVALUATION_STEPS} evaluation steps; about ")
    stages = lines[2:]
    assert [line.split("  ")[0] for line in stages] == [f"stage {z}/{NUM_STAGES}" for z in range(NUM_STAGES + 1)]
    for line in stages:
        assert all(word in line for word in ("steps/s", "HV ", "EU ", " left")), line
    assert stages[-1].endswith("0 s left")
    assert "\x1b" not in shown.err + shown.out
    summary = Run(out).summary
    assert f"HV {summary['hypervolume']:.4g}   EU {summary['expected_utility']:.4g}" in shown.out
    assert "points of the front" in shown.out
    *_, run_line, picture_line = (line for line in shown.out.splitlines() if line.startswith(("run:", "picture:")))
    assert (run_line, picture_line) == (f"run: {out}", f"picture: {out / 'front.png'}")  # whole, to be copied
    assert shown.out.splitlines()[-1].endswith(f"ucb-moppo view {out}")
    assert_same_run(out, run.path)  # the command line and Python are one


def test_quiet_prints_nothing_and_json_prints_the_summary(run: Run, tmp_path: Path, capsys: Capture) -> None:
    cli.main(trade_arguments("--out", str(tmp_path / "quiet"), "--quiet"))
    assert capsys.readouterr() == ("", "")

    cli.main(trade_arguments("--out", str(tmp_path / "json"), "--quiet", "--json"))
    shown = json.loads(capsys.readouterr().out)
    assert shown == Run(tmp_path / "json").summary | {"run": str(tmp_path / "json")}
    assert shown["hypervolume"] == run.summary["hypervolume"]


def test_a_run_that_searches_nothing_says_so_first(tmp_path: Path, capsys: Capture) -> None:
    cli.main(trade_arguments("--out", str(tmp_path / "run"), "--warmup", "9"))
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("ucb-moppo: warning: method ucb chooses no weights: the warm-up takes all 5 iterations")
    assert first.endswith("give --warmup 1, or more --steps")


def test_a_runs_config_reproduces_it_to_the_bit(run: Run, tmp_path: Path) -> None:
    cli.main(["train", "--config", str(run.path / "config.json"), "--out", str(tmp_path / "again"), "--quiet"])
    assert_same_run(tmp_path / "again", run.path)


def test_default_directory_is_new_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        cli.main(trade_arguments("--quiet"))
    stem = "probe_envs-probe-Trade-v0-ucb-seed0"
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [stem, f"{stem}-2"]


# --- options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    ["Swimmer-v2 --steps 90000 --seed 7", "--steps 90000 Swimmer-v2 --seed 7", "--seed=7 --steps=90000 Swimmer-v2"],
)
def test_options_stand_before_or_after_the_problem(arguments: str) -> None:
    settings = cli.parse_train(arguments.split())[1]
    assert settings == override(default_settings("Swimmer-v2"), steps=90_000, seed=7)


def test_every_setting_has_an_option() -> None:
    """Each option, given a value other than its default, changes just the setting of its name."""
    special = {"method": "mean", "preset": "paper", "selection": "top_n", "candidate_values": "simulate"}
    special |= {
        "reference_point": "1 2",
        "objective_scales": "3 4",
        "samples": "5000",
        "active": "5",
        "seed": "3",
        "threads": "1",
    }
    special |= {"ensemble": "3", "policies": "7", "candidates": "70", "horizon": "9", "gae_lambda": "0.5"}
    special |= {
        "stage_iterations": "4",
        "protocol": "pgmorl",
        "warmup": "8",
        "together": "5",
        "resample_iterations": "2",
        "log_std": "-2.5",
    }
    special |= {"acquisition": "expected_utility", "surrogate": "my_lab:Model", "indicators": "my_lab:spread"}
    special |= {"entropy_coefficient": "0.25", "gamma": "0.5", "learning_rate": "0.125", "cells": "32"}
    special |= {"evaluation_discount": "0.5", "utility_divisions": "7", "activation": "relu"}
    special |= {"layout": "static", "probes": "4", "episodes": "6", "confidence": "objectives"}
    special |= {"executor": "local", "shards": "2", "ray_address": "10.0.0.1:6379"}
    base = default_settings("Hopper-v2")
    special |= {"utility": "my_lab:worth", "criterion": "esr", "actions": "sampled"}
    special |= {"nadir": "5 6", "ideal": "7 8", "floors": "height=9"}
    sections = ((PPOSettings, base.ppo), (SearchSettings, base.search), (GoalSettings, base.goal))
    for holder, config in ((MoppoSettings, base), *sections):
        for field in dataclasses.fields(holder):
            if field.name in ("problem", "ppo", "search", "goal", "pivots"):
                continue
            before, flag = getattr(config, field.name), field.name.replace("_", "-")
            if isinstance(before, bool):
                options, after = [f"--no-{flag}" if before else f"--{flag}"], not before
            else:
                text = special.get(field.name) or str(before / 2 if isinstance(before, float) else before + 1)
                text = "0.125" if text == "0.0" else text
                number = float if set(".e") & set(text) else int
                kind = (
                    str
                    if isinstance(before, str) or field.name in ("ray_address", "indicators", "acquisition")
                    else number
                )
                several = {"reference_point": (1.0, 2.0), "objective_scales": (3.0, 4.0)}
                several |= {"indicators": ("my_lab:spread",), "floors": ("height=9",)}
                several |= {"nadir": (5.0, 6.0), "ideal": (7.0, 8.0)}
                after = several[field.name] if field.name in several else kind(text)
                options = [f"--{flag}", *text.split()]
            # What says how a utility looks at returns is said beside one that looks at it.
            beside = {
                "rho": {"utility": "chebyshev", "ideal": (7.0, 8.0)},
                "floor_penalty": {"utility": "floors", "floors": ("height=9",)},
            }
            own = beside.get(field.name, {"utility": "my_lab:worth"}) if holder is GoalSettings else {}
            for name, value in own.items():
                options += [f"--{name}", *([value] if isinstance(value, str) else map(str, value))]
            expected = override(base, **own | {field.name: after})
            if field.name == "preset":
                expected = default_settings("Hopper-v2", "paper")
            assert cli.parse_train(["Hopper-v2", *options])[1] == expected, field.name


def test_presets_change_the_defaults() -> None:
    def settings(*arguments: str) -> RunSettings:
        return cli.parse_train(arguments)[1]

    assert settings("Swimmer-v2").ppo.gamma == 0.9999
    assert settings("Swimmer-v2", "--preset", "paper").ppo.gamma == 0.99
    assert settings("--preset=paper", "Swimmer-v2").ppo.gamma == 0.99
    assert settings("Ant-v2").ppo.log_std == -1
    assert settings("Ant-v2", "--preset", "paper").ppo.log_std == 0
    assert settings("Hopper-v2", "--preset", "paper").steps == 60_000_000  # three of ten policies each
    assert settings("Hopper-v3", "--preset", "paper").steps == 216_000_000
    assert settings("Hopper-v2", "--preset", "quick").steps < settings("Hopper-v2").steps == 5_000_000
    # What is asked for stands above the preset.
    assert settings("Swimmer-v2", "--preset", "quick", "--steps", "123456", "--gamma", "0.5") == override(
        default_settings("Swimmer-v2", "quick"), steps=123_456, gamma=0.5
    )


def test_options_stand_above_the_config_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"problem": "Swimmer-v2", "active": 4, "samples": 40, "ppo": {"clip": 0.3}}))
    settings = cli.parse_train(["--config", str(file), "--out", "somewhere"])[1]
    assert settings == override(default_settings("Swimmer-v2"), active=4, samples=40, clip=0.3)
    # The method is the file's, unless one is named.
    file.write_text(json.dumps({"problem": "Swimmer-v2", "active": 4, "samples": 40, "method": "random"}))
    assert cli.parse_train(["--config", str(file)])[1].method == "random"
    assert cli.parse_train(["--config", str(file), "--method", "mean"])[1].method == "mean"
    peer = make_settings("Swimmer-v2", "pdmorl", steps=999, batch=7)
    file.write_text(json.dumps(peer.to_json()))
    assert cli.parse_train(["--config", str(file)])[1] == peer
    assert cli.parse_train(["--config", str(file), "--set", "batch=9"])[1] == override(peer, batch=9)
    file.write_text(json.dumps({"problem": "Swimmer-v2", "active": 4, "samples": 40, "ppo": {"clip": 0.3}}))
    # 8 divides 40, the file's samples: only the two together can be judged.
    settings = cli.parse_train(["--config", str(file), "--active", "8"])[1]
    assert (settings.search.active, settings.search.samples) == (8, 40)
    settings = cli.parse_train(["--config", str(file), "Ant-v2", "--preset", "quick"])[1]
    assert settings == override(default_settings("Ant-v2", "quick"), active=4, samples=40, clip=0.3)


def test_options_without_effect_are_refused(tmp_path: Path) -> None:
    """What stands in a run's config is no option: there it was decided."""
    config = resolve(default_settings("Swimmer-v2"), make_spec("Swimmer-v2"))
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config.to_json()))
    told = "rollout is 50, but samples is 2500"
    with pytest.raises(ConfigError, match=told):
        cli.parse_train(["--config", str(file), "--rollout", "50"])
    with pytest.raises(ConfigError, match=told):
        cli.parse_train(["--config", str(file), "--set", "rollout=50"])
    with pytest.raises(ConfigError, match="together is 7, but in layout static"):
        cli.parse_train(["--config", str(file), "--layout", "static", "--together=7"])
    settings = cli.parse_train(["--config", str(file), "--layout", "static"])[1]
    assert settings == override(from_json(config.to_json()), layout="static")


def test_the_paper_s_steps_follow_its_policies(tmp_path: Path) -> None:
    def steps(*arguments: str) -> int:
        return cli.parse_train(["Hopper-v2", "--preset", "paper", *arguments])[1].steps

    assert steps("--replicas", "1") == steps("--set", "replicas=1") == 20_000_000
    assert steps("--replicas", "1", "--steps", "60000000") == 60_000_000
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"steps": 60_000_000}))
    assert steps("--replicas", "1", "--config", str(file)) == 60_000_000


# --- help --------------------------------------------------------------------------------------------------


def help_of(capsys: Capture, *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main([*arguments, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_names_and_explains_every_option(capsys: Capture) -> None:
    text = help_of(capsys, "train")
    names = [
        field.name
        for holder in (cli.Train, MoppoSettings, PPOSettings, SearchSettings, GoalSettings)
        for field in dataclasses.fields(holder)
        if field.name not in ("settings", "problem", "ppo", "search", "goal", "pivots")
    ]
    for name in names:
        flag = name.replace("_", "-")
        assert f"--{flag} " in text or f"--{flag}, --no-{flag} " in text, name
    # Every one of them says what happens when it is left out.
    assert text.count("(default:") == len(names)


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    """`ucb-moppo train --help | head -1`: the reader is gone before the rest is written."""
    program = subprocess.Popen(
        [sys.executable, "-m", "ucb_moppo", "problems", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.close()
    _, faults = program.communicate()
    assert faults == b""
    assert program.returncode == 0


def test_help_for_a_problem_shows_its_defaults(capsys: Capture) -> None:
    def default_of(text: str, option: str) -> str:
        return text.split(f"--{option} ")[1].split("(default: ")[1].split(")")[0]

    assert default_of(help_of(capsys, "train", "Swimmer-v2"), "gamma") == "0.9999"
    assert default_of(help_of(capsys, "train"), "gamma").startswith("0.99; 0.995 or more")
    assert default_of(help_of(capsys, "train"), "clip") == "0.2"
    assert default_of(help_of(capsys, "train"), "acquisition").startswith("hypervolume;")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("evaluate", ["--weights-per-policy", "--episodes", "--out", "--json"]),
        ("show", ["--rows", "--json"]),
        ("problems", ["--all", "--json"]),
    ],
)
def test_help_of_the_other_commands(command: str, options: list[str], capsys: Capture) -> None:
    text = help_of(capsys, command)
    assert all(option in text for option in options)


@pytest.mark.parametrize(("arguments", "on"), [(["--decay"], True), (["--no-decay"], False)])
def test_what_is_on_by_default_can_be_asked_for_too(arguments: list[str], on: bool) -> None:
    settings = cli.parse_train(["Hopper-v2", *arguments])[1]
    assert isinstance(settings, MoppoSettings)
    assert settings.ppo.decay is on


def test_version_is_that_of_the_package(capsys: Capture) -> None:
    cli.main(["--version"])
    assert capsys.readouterr().out == f"ucb-moppo {version('ucb-moppo')}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_usage_names_the_commands(arguments: list[str], capsys: Capture) -> None:
    cli.main(arguments)
    text = capsys.readouterr().out
    assert all(f"ucb-moppo {command}" in text for command in ("train", "show", "evaluate", "problems"))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["evaluate", "run", "--actions"], "('deterministic', 'sampled')"),
        (["export", "run", "--format"], "('safetensors', 'onnx', 'numpy')"),
    ],
)
def test_a_name_that_is_none_is_answered_with_those_that_can_be_given(
    words: list[str], names: str, capsys: Capture
) -> None:
    for given in ("random", "None"):
        with pytest.raises(SystemExit):
            cli.main([*words, given])
        said = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert f"invalid choice '{given}' for argument '{words[-1]}'. Expected one of {names}." in said


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_there_is_not_is_refused(port: int, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        cli.main(["view", "run", "--port", str(port)])
    assert f"--port is {port}; it must be from 0 (any free one) to 65535" in capsys.readouterr().err


# --- show, evaluate, problems ------------------------------------------------------------------------------


def test_show_prints_what_was_run_and_found(run: Run, capsys: Capture) -> None:
    cli.main(["show", str(run.path)])
    text = capsys.readouterr().out
    summary = run.summary
    assert f"ucb on {PROBLEM}, seed 0, finished" in text
    assert f"HV {summary['hypervolume']:.4g}" in text
    assert f"EU {summary['expected_utility']:.4g}" in text
    assert f"400 training and {EVALUATION_STEPS} evaluation steps" in text

    cli.main(["show", str(run.path), "--json"])
    assert json.loads(capsys.readouterr().out) == summary | {"config": run.config}


def test_show_prints_as_many_rows_as_asked(run: Run, capsys: Capture) -> None:
    cli.main(["show", str(run.path), "--rows", "2"])
    text = capsys.readouterr().out
    assert f"2 of {len(run.front().returns)} points of the front" in text
    # The ends of the front, by the first objective.
    for value in (run.front().returns[:, 0].min(), run.front().returns[:, 0].max()):
        assert f"{value:,.1f}" in text


def test_what_was_not_confirmed_is_in_no_table(tmp_path: Path, capsys: Capture) -> None:
    """(1, 9), (4, 4) and (9, 1) were chosen for the front; measured anew, the middle one is worse than the last."""
    chosen = np.array([[[1.0, 9.0], [4.0, 4.0], [9.0, 1.0]]])
    run = SampleRun.showing(chosen).write(tmp_path / "run")
    rewrite(run, "front.csv", (run / "front.csv").read_bytes().replace(b"4.0,4.0", b"4.0,0.5"))
    cli.main(["show", str(run)])
    text = capsys.readouterr().out
    assert "2 of 2 points of the front" in text
    assert "9.0" in text
    assert "0.5 " not in text.partition("points of the front")[2].replace("0.500", "")


@pytest.mark.parametrize("words", [["show", "run", "--rows", "-1"], ["train", PROBLEM, "--videos", "-1"]])
def test_fewer_than_none_is_refused_before_anything_is_done(words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        cli.main(words)
    assert f"{words[2]} is -1; it must be at least 0" in capsys.readouterr().err


def test_what_there_is_one_of_is_not_told_as_many(tmp_path: Path, capsys: Capture) -> None:
    point = SampleRun.showing(np.ones((1, 1, 2))).write(tmp_path / "run")
    cli.main(["show", str(point)])
    assert "1 point on the front from 1 policy\n" in capsys.readouterr().out


def test_evaluate_reproduces_the_front_to_the_bit(run: Run, tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "front.csv"
    cli.main(["evaluate", str(run.path), "--out", str(table), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert table.read_bytes() == (run.path / "front.csv").read_bytes()
    for name in ("hypervolume", "expected_utility", "sparsity", "cardinality"):
        assert found[name] == run.summary[name]
    assert (found["weights_per_policy"], found["episodes"]) == (3, 1)
    assert found["evaluation_steps"] == 2 * 3 * 5


def test_evaluate_takes_as_many_episodes_as_the_run_did(tmp_path: Path, capsys: Capture) -> None:
    run = train_trade(tmp_path / "run", episodes=2)
    cli.main(["evaluate", str(run.path), "--out", str(tmp_path / "front.csv"), "--json"])
    assert json.loads(capsys.readouterr().out)["episodes"] == 2
    assert (tmp_path / "front.csv").read_bytes() == (run.path / "front.csv").read_bytes()


def test_evaluate_takes_more_weights_and_episodes(run: Run, tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "front.csv"
    options = ["--weights-per-policy", "7", "--episodes", "2", "--out", str(table)]
    cli.main(["evaluate", str(run.path), *options, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["weights_per_policy"], found["episodes"]) == (7, 2)
    assert found["evaluation_steps"] == 2 * 7 * 2 * 5
    weights = np.loadtxt(table, delimiter=",", skiprows=1, usecols=(1, 2))
    # Evenly spaced over the whole simplex: 14 weights, both ends included.
    np.testing.assert_allclose(weights[:, 0], np.arange(14) / 13)

    cli.main(["evaluate", str(run.path), *options])
    shown = capsys.readouterr().out
    assert f"HV {found['hypervolume']:.4g}" in shown
    assert "7 weights per policy, each on 2 episodes: 140 steps\n" in shown
    assert shown.endswith(f"front: {table}\n")


def test_problems_lists_what_there_is(capsys: Capture) -> None:
    cli.main(["problems", "--json"])
    listed = json.loads(capsys.readouterr().out)
    found = {
        p["name"]: (p["observation_size"], p["action"]["size"], len(p["objectives"])) for p in listed["problems"]
    }
    assert found == PROBLEM_SIZES | MO_PROBLEM_SIZES
    six = [p for p in listed["problems"] if p["name"] in PROBLEM_SIZES]
    assert all(p["horizon"] == 1000 and set(p["reference_point"]) == {0.0} for p in six)
    assert {"mo-hopper-v5", "deep-sea-treasure-v0", "minecart-v0"} <= set(listed["mo_gymnasium"])

    cli.main(["problems"])
    text = capsys.readouterr().out
    assert all(name in text for name in PROBLEM_SIZES)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text  # nothing was cut off to fit
    cli.main(["problems", "--all"])
    assert "\nminecart-v0\n" in capsys.readouterr().out


def test_words_of_a_run_are_shown_as_words(tmp_path: Path, capsys: Capture) -> None:
    """Neither a terminal's escape sequences nor what rich takes for markup."""
    run = SampleRun().write(tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text())
    summary |= {"method": "\x1b[2Jucb[/x]", "objectives": ["[/bold]speed", "\x07energy"]}
    rewrite(run, "summary.json", json.dumps(summary).encode())
    cli.main(["show", str(run)])
    shown = capsys.readouterr().out
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    for words in ("[2Jucb[/x] on", "[/bold]speed", "energy"):
        assert words in shown


# --- before and during a run -------------------------------------------------------------------------------


class StillExecutor:
    """Trains nothing; every iteration would take 3 s and every step 1 ms."""

    def time_iteration(self) -> Timing:
        return Timing(iteration=3.0, step=0.001)


# Policies apart from the start, as the paper has them.
STATIC = {"layout": "static", "policies": 10, "active": 10, "samples": 2500, "probes": 10, "episodes": 1}


def plan_of(problem: str, **settings: Any) -> tuple[MoppoConfig, Plan]:
    spec = make_spec(problem)
    config = resolve(override(default_settings(problem), **settings), spec)
    return config, Trainer(config, spec, StillExecutor()).plan()  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_evaluation_stays_under_a_quarter_of_training(problem: str) -> None:
    """By default (SPEC.md §5), at 5M training steps; Hopper-v3 at 18M."""
    config, plan = plan_of(problem, steps=18_000_000 if problem == "Hopper-v3" else 5_000_000)
    assert plan.training_steps == config.steps
    assert plan.evaluation_steps < plan.training_steps / 4


def test_plan_counts_steps_and_time() -> None:
    # Swimmer-v2, 5M steps: 10 policies × 2,500 samples -> 200 iterations in 10 stages of 20, so 11 evaluations
    # of 10 policies × 10 probes × 1,000 steps.
    _, plan = plan_of("Swimmer-v2", **STATIC, stage_iterations=20)
    assert (plan.training_steps, plan.num_stages, plan.evaluation_steps) == (5_000_000, 10, 1_100_000)
    assert plan.seconds == pytest.approx(200 * 3.0 + 1_100_000 * 0.001)


def test_terminal_shows_a_bar() -> None:
    """Stage, steps/s, HV, EU and the time left, as they stand."""
    screen = io.StringIO()
    bar = Bar(Console(file=screen, force_terminal=True, width=160))
    bar.start(*plan_of("Swimmer-v2", **STATIC, stage_iterations=20), Path("somewhere"))
    bar.iteration(20)
    indicators = {"hypervolume": 54321.0, "expected_utility": 123.4}
    bar.stage(StageRecord(1, 20, 500_000, 200_000, 60.0, np.zeros((1, 1, 2)), indicators))
    bar.iteration(21)
    bar.stop()
    text = screen.getvalue()
    assert "5,000,000 training steps and up to 1,100,000 evaluation steps; about 28 min 20 s" in text
    for part in ("stage 1/10", " 10%", "steps/s", "HV 5.432e+04", "EU 123.4", " left"):
        assert part in text, part


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (12, "12 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3900, "1 h 05 min"), (-1, "0 s")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
