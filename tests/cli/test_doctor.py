"""`ucb-moppo doctor` tells what there is, also where much is missing, and gives nothing away."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ucb_moppo.cli import doctor
from ucb_moppo.cli.doctor import (
    describe_browser,
    describe_disk,
    describe_environment,
    describe_ffmpeg,
    describe_installation,
    describe_kernels,
    describe_packages,
    describe_rendering,
    describe_system,
    in_bytes,
    installation_lines,
    split_requirement,
    without_home,
)
from ucb_moppo.cli.main import main
from ucb_moppo.compile_cache import SETTING, make_private, processor_name


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the parts that take seconds."""
    monkeypatch.setattr(doctor, "describe_rendering", lambda: "works")
    monkeypatch.setattr(doctor, "describe_jax", lambda: {"backend": "cpu"})
    monkeypatch.setattr(doctor, "describe_browser", lambda: "Chromium 1")


@pytest.mark.usefixtures("quick")
def test_all_sections_are_told_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["system"]["ucb-moppo"] == importlib.metadata.version("ucb-moppo")
    assert found["packages"]["jax"] == importlib.metadata.version("jax")
    assert {"rendering (EGL)", "browser", "ffmpeg", "free disk", "compiled kernels"} <= found.keys()
    main(["doctor"])
    text = capsys.readouterr().out
    assert all(section in text for section in found)


@pytest.mark.parametrize(
    ("requirement", "parts"),
    [
        ("jax>=0.10", ("jax", "")),
        ("gymnasium[mujoco]>=1.4", ("gymnasium", "")),
        ('dash>=4; extra == "viewer"', ("dash", "viewer")),
        ("setuptools>=77; python_version >= '3.12' and extra == 'peers'", ("setuptools", "peers")),
        ('playwright>=1.55; extra == "browser-tests"', ("playwright", "browser-tests")),
    ],
)
def test_a_requirement_is_a_package_and_its_extra(requirement: str, parts: tuple[str, str]) -> None:
    assert split_requirement(requirement) == parts


def test_a_package_that_is_missing_comes_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ['no-such-package>=1; extra == "viewer"', "none-at-all", 'pytest-nothing; extra == "dev"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: asked)
    assert describe_packages() == {
        "no-such-package": "not installed: pip install 'ucb-moppo[viewer]'",
        "none-at-all": "not installed: pip install 'none-at-all'",
    }


@pytest.mark.usefixtures("quick")
def test_one_fact_that_cannot_be_found_keeps_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("libcuda is haunted")

    monkeypatch.setattr(doctor, "describe_jax", broken)
    monkeypatch.setattr(doctor, "describe_disk", broken)
    found = describe_installation()
    assert found["jax"] == found["free disk"] == "cannot be found: OSError: libcuda is haunted"
    assert found["system"]["python"]


def test_rendering_is_tried_and_what_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DRAW", "pass")
    assert describe_rendering() == "works"
    monkeypatch.setattr(doctor, "DRAW", "raise SystemError('no display of any kind')")
    assert describe_rendering().endswith("SystemError: no display of any kind")
    monkeypatch.setattr(doctor, "DRAW", "import os; os.abort()")
    assert describe_rendering().endswith("exit code -6")


def test_what_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert describe_browser().startswith("no Chromium")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert describe_ffmpeg() == "not installed: pip install 'ucb-moppo[viewer]'"


def test_a_browser_is_asked_for_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command == ["/opt/chromium", "--version"]
        return subprocess.CompletedProcess(command, 0, "Chromium 140\n", "")

    monkeypatch.setenv("CHROMIUM", "/opt/chromium")
    monkeypatch.setattr(doctor.subprocess, "run", answer)
    assert describe_browser() == "Chromium 140"


def test_where_kernels_are_kept_is_told_and_why_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/elsewhere")
    assert describe_kernels() == "kept in /elsewhere, as JAX_COMPILATION_CACHE_DIR says"
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv(SETTING, "off")
    assert describe_kernels().startswith(f"not kept: {SETTING}=off")
    monkeypatch.setenv(SETTING, str(tmp_path / "kernels"))
    folder = tmp_path / "kernels" / processor_name()
    assert describe_kernels() == f"will be kept in {folder}"
    assert not folder.exists()
    make_private(folder)
    (folder / "jit_f-cache").write_bytes(bytes(1500))
    assert describe_kernels() == f"1 in {folder}, 1.5 kB"
    folder.chmod(0o777)
    assert describe_kernels() == f"not kept: others can write to {folder}: chmod go-w it"


def test_kernels_are_not_promised_where_they_cannot_be_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("JAX_COMPILATION_CACHE_DIR", SETTING):
        monkeypatch.delenv(name, raising=False)
    shared = make_private(tmp_path / "shared")
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    assert describe_kernels().startswith(f"will be kept in {shared / 'cache'}")
    shared.chmod(0o777)
    assert describe_kernels() == f"not kept: others can write to {shared}: chmod go-w it"
    (tmp_path / "file").write_text("of somebody's")
    monkeypatch.setenv(SETTING, str(tmp_path / "file"))
    assert describe_kernels() == f"not kept: {tmp_path / 'file'} is no folder"
    assert list(shared.iterdir()) == []


def test_neither_secrets_nor_the_users_name_are_given_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "hunter2")
    monkeypatch.setenv("XLA_FLAGS", "--some")
    monkeypatch.setenv("GITHUB_THING", "private")
    found = describe_environment()
    assert (found["RAY_AUTH_TOKEN"], found["XLA_FLAGS"]) == ("(not shown)", "--some")
    assert "GITHUB_THING" not in found
    monkeypatch.setenv("HOME", "/home/mallory")
    assert without_home({"a": "/home/mallory/x", "b": 3}) == {"a": "~/x", "b": 3}


def test_cores_and_disk_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCB_MOPPO_CORES", "1")
    assert describe_system()["cores"].startswith("1 of ")
    assert describe_system()["cores"].endswith("(UCB_MOPPO_CORES=1)")
    assert describe_disk().keys() == {"here", "temporary files"}


def test_a_limit_that_is_no_number_keeps_no_other_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCB_MOPPO_CORES", "x")
    found = describe_system()
    assert "UCB_MOPPO_CORES is 'x'; give it a number of cores" in found["cores"]
    assert found["python"]


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2.5e9, "2.5 GB"), (4e12, "4,000.0 GB")],
)
def test_bytes_are_told_in_units(count: float, words: str) -> None:
    assert in_bytes(count) == words


def test_lines_stand_in_columns() -> None:
    assert installation_lines({"system": {"python": "3.12"}, "browser": "none"}) == [
        "system",
        "  python  3.12",
        "browser   none",
    ]
