"""Code that a file names is announced before it is imported; what only lies about is never imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sample_runs import SampleRun, rewrite

from ucb_moppo.bench.sweep_file import read_sweep
from ucb_moppo.cli.main import read_config
from ucb_moppo.errors import ConfigError
from ucb_moppo.store.run import Run
from ucb_moppo.training.imports import announce_imports, named_modules
from ucb_moppo.training.reevaluate import load_config
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run


@pytest.mark.parametrize(
    ("settings", "modules"),
    [
        ({"problem": "Swimmer-v2", "method": "ucb"}, []),
        ({"problem": "my.lab:Valley-v0"}, ["my.lab"]),
        ({"problem": "my_lab:space/Valley-v0", "indicators": ["a:b", "sparsity"]}, ["a", "my_lab"]),
        ({"search": {"acquisition": "x:Y", "surrogate": "z:W"}}, ["x", "z"]),
        ({"problems": ["p:q"], "methods": ["m:n"], "per_method": {"ucb": {"acquisition": "k:l"}}}, ["k", "m", "p"]),
        ({"ray_address": "head:6379", "note": "a:b"}, []),
        ({"problem": "\x1b[2J:x"}, []),
        ({"problem": 3, "method": None, "indicators": {"a:b": 1}}, ["a"]),
    ],
)
def test_modules_are_found_where_they_are_named(settings: dict[str, Any], modules: list[str]) -> None:
    assert sorted(set(named_modules(settings))) == modules


def test_nothing_is_said_of_what_is_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    announce_imports(tmp_path, {"problem": "Swimmer-v2", "method": "ucb"})
    assert capsys.readouterr().err == ""


@pytest.fixture
def telling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that says when it is imported."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/telling_lab.py").write_text("import sys; print('imported', file=sys.stderr)")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    monkeypatch.delitem(sys.modules, "telling_lab", raising=False)
    return "telling_lab:Thing"


def assert_announced_first(said: str) -> None:
    lines = [line for line in said.splitlines() if "telling_lab" in line or line == "imported"]
    assert lines[0].endswith("names code to import and execute: telling_lab"), said
    assert lines[1] == "imported", said


def test_resume_and_evaluate_say_so_first(
    tmp_path: Path, telling: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SampleRun().write(tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    rewrite(run, "config.json", json.dumps(config | {"problem": telling}).encode())
    with pytest.raises(ConfigError):
        resume_run(run, Silent())
    assert_announced_first(capsys.readouterr().err)
    monkeypatch.delitem(sys.modules, "telling_lab")
    rewrite(run, "config.json", json.dumps(config | {"method": telling}).encode())
    with pytest.raises(ConfigError):
        load_config(Run(run))
    assert_announced_first(capsys.readouterr().err)


def test_a_sweep_and_a_config_say_so_first(
    tmp_path: Path, telling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = {"name": "s", "problems": [telling], "methods": ["ucb"], "seeds": [0]}
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    with pytest.raises(ConfigError):
        read_sweep(tmp_path / "sweep.json")
    assert_announced_first(capsys.readouterr().err)
    (tmp_path / "config.json").write_text(json.dumps({"problem": telling}))
    read_config(tmp_path / "config.json")
    assert "import and execute: telling_lab" in capsys.readouterr().err


def test_a_worker_does_not_look_for_modules_where_it_is_started(tmp_path: Path) -> None:
    """A folder in which somebody has put a module of a name that the worker imports."""
    for name in ("safetensors", "msgspec", "numpy", "jax"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    program = (
        "import subprocess\n"
        "seen = []\n"
        "popen = subprocess.Popen\n"
        "subprocess.Popen = lambda command, *a, **k: (seen.append(command), popen(command, *a, **k))[1]\n"
        "from ucb_moppo.training.train import train_run\n"
        "from tiny_runs import tiny_settings\n"
        "from ucb_moppo.training.reporter import Silent\n"
        "train_run(tiny_settings(executor='processes', shards=2, steps=80), 'run', Silent())\n"
        "ours = [command for command in seen if 'ucb_moppo' in command[-1]]\n"
        "assert len(ours) == 2 and all('-P' in command for command in ours), seen\n"
    )
    found = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=found, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "executed").exists()
