"""Pages whose blocks are executed, in order, where a new user would: in an empty folder with a run in it. And what
is found where a page speaks of something that is not there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/check.py."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    import check

    return check


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`--steps 5` and `--no-stagger`", []),
        ("`--step` and `--policies 3 --replica 2`", ["--step", "--replica"]),
        ("`--evaluations`, which others' methods have", []),
        ("`ucb-moppo train PROBLEM --steps 5 --rows`", ["--rows"]),
        ("`train --method pgmorl --evaluations 3 --acquisition mean`", ["--acquisition"]),
        ("`view --render` and `choose --knee`, `bench --knee`", ["--knee"]),
        ("a span\nof two lines: `--gamma 0.9\n--gama`", ["--gama"]),
        ("`pip install --no-deps x`, `python benchmarks/a.py --kills 3` and `git --wrong`", []),
        ("```bash\nother --wrong `--wrong`\n```\n", []),
    ],
)
def test_an_option_that_no_command_has_is_found_in_a_sentence(
    text: str, missing: list[str], check: ModuleType
) -> None:
    assert [re.findall(r"--[a-z-]+", fault)[0] for fault in check.broken_options(text)] == missing


def test_an_option_is_one_as_a_whole(check: ModuleType) -> None:
    """--step is not there because --steps is."""
    text = "```bash\nucb-moppo train Hopper-v2 --step 5 --steps=7\n```\n"
    assert list(check.broken_commands(text)) == ["uses --step of `train`, which has no such option"]


def test_results_are_followed_where_they_are(check: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    page, text = ROOT / "docs" / "page.md", "[a](../results/nowhere) and [b](nowhere.md)"
    faults = [f"links to {target}, which does not exist" for target in ("../results/nowhere", "nowhere.md")]
    monkeypatch.setattr(check, "UNPACKED", False)
    assert list(check.broken_links(page, text)) == faults
    monkeypatch.setattr(check, "UNPACKED", True)
    assert list(check.broken_links(page, text)) == faults[1:]


def test_what_was_to_be_filled_in_is_found(check: ModuleType) -> None:
    assert list(check.unfilled("since `@@SECOND@@` a\n| 5 | @@HUM@@ |")) == [
        "still has @@SECOND@@ to be filled in",
        "still has @@HUM@@ to be filled in",
    ]
    assert list(check.unfilled("mail@example.org, a @@ b")) == []
