"""A path may begin with the user's folder, as in a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_runs import SampleRun
from tiny_runs import TINY

import ucb_moppo
from ucb_moppo.errors import ConfigError
from ucb_moppo.store.run import Run, load_run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, which is not where the process is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_runs_and_policies_are_loaded_from_it(home: Path) -> None:
    SampleRun().write(home / "runs" / "x")
    run = ucb_moppo.load("~/runs/x")
    assert isinstance(run, Run)
    assert run.path == home / "runs" / "x"
    run.policy([0.5, 0.5]).save(home / "one.safetensors")
    assert isinstance(ucb_moppo.load(Path("~/one.safetensors")), ucb_moppo.Policy)


def test_a_path_that_a_shell_has_given_is_taken_as_it_is(home: Path) -> None:
    home.mkdir()
    SampleRun().write(Path("~"))
    assert load_run("~").place == home.parent / "elsewhere" / "~"


def test_a_run_is_trained_and_continued_there(home: Path) -> None:
    run = ucb_moppo.train("Swimmer-v2", out="~/runs/x", quiet=True, **TINY | {"steps": 80})
    assert run.path == home / "runs" / "x"
    assert ucb_moppo.resume("~/runs/x", quiet=True).summary == run.summary
    assert list(Path.cwd().iterdir()) == []


def test_nobodys_folder_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"~who-is-this/x begins with the home folder of a user who is not here"):
        ucb_moppo.load("~who-is-this/x")
