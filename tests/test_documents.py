"""Pages whose blocks are executed, in order, where a new user would: in an empty folder with a run in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import train_tiny

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and text of every block of a page that is to be executed."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def execute(language: str, text: str, folder: Path) -> str:
    """What a block prints; one that fails fails the test."""
    interpreter = ["bash", "-e", "-c"] if language == "bash" else [sys.executable, "-c"]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": programs}
    done = subprocess.run([*interpreter, text], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return done.stdout


def test_deploying_works_as_the_page_says(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="not installed: pip install onnxruntime")
    train_tiny(tmp_path / "runs" / "swimmer")
    said = [execute(language, text, tmp_path) for language, text in blocks("docs/deploy.md")]
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "swimmer", "swimmer.onnx", "swimmer.safetensors"}
    exported, _, episode, onnx, alone = said
    assert exported.splitlines()[0] == "policy 0 for Swimmer-v2, conditioned on 0.7, 0.3" or "policy 1" in exported
    assert "in a whole episode" in episode
    assert onnx.startswith("Swimmer-v2 ['forward speed'")
    assert alone.count("[") == 6  # one action, a batch of three, one action


def test_the_citation_is_of_this_version() -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"\nversion: {version[1]}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_a_bug_report_asks_for_what_the_doctor_says() -> None:
    assert "ucb-moppo doctor" in (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8")
