"""The tutorials: every block of code of a page is executed in order, as it stands, on runs of a second.

Only what makes a run long or puts it elsewhere is replaced: sizes, and executors that start processes or want a
cluster (``tests/runtime`` is about those). Python blocks share their names; a block with a title is a file; of the
console's lines those of ``ucb-moppo`` are run, but for ``view``, which would wait for its reader.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tiny_runs import TINY

import ucb_moppo
from ucb_moppo.cli import main as cli
from ucb_moppo.cli.options import View

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SMALL: dict[str, Any] = TINY | {"held_out": 2}
SIZES = ("--steps", "--held-out", "--preset")
"""Options of the tutorials that say how much is done."""
ELSEWHERE = ("--executor", "--ray-address")
NOT_RUN = ("pip", "ray", "python3")
"""What prepares a machine."""


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


def without(words: list[str], *options: str) -> list[str]:
    """Words of a command without some options and their values."""
    places = [i for i, word in enumerate(words) if word in options]
    return [word for i, word in enumerate(words) if i not in places and i - 1 not in places]


def make_small(words: list[str]) -> list[str]:
    """A command of ours that trains, or measures, for a second and in this process."""
    command, *rest = words
    if command == "train":
        sizes = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        if "--shards" in rest:  # of which there are no more than policies
            sizes += ["--shards", str(SMALL["policies"])]
        return [command, *without(rest, *SIZES, *ELSEWHERE, "--shards"), *sizes, "--executor", "local", "--quiet"]
    if command == "choose" and "--no-questions" not in rest:
        return [*words, "--no-questions", "--episodes", "2"]  # nobody is here to answer
    if command == "evaluate":
        return [command, *without(rest, *SIZES), "--held-out", "3"]
    if command == "bench":
        return [command, *without(rest, *ELSEWHERE), "--executor", "local"]
    return words


def write_file(block: Block) -> None:
    """A block with a title; a sweep in it gets small sizes."""
    text = block.text
    if block.title.endswith(".json"):
        spec = json.loads(text)
        sizes = {name: value for name, value in SMALL.items() if name != "steps"}
        text = json.dumps(spec | {"steps": SMALL["steps"], "seeds": spec["seeds"][:2], "settings": sizes})
    Path(block.title).write_text(text, encoding="utf-8")


def run_line(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of a console."""
    words = shlex.split(line)
    if words[0] == "export":
        assert words == ["export", "PYTHONPATH=."]
        monkeypatch.syspath_prepend(Path.cwd())
    elif words[:2] == ["ucb-moppo", "view"]:
        assert cli.parse(View, words[2:], "view").run.is_dir()
    elif words[0] == "ucb-moppo":
        cli.main(make_small(words[1:]))
    else:
        assert words[0] in NOT_RUN, f"the test does not know what to do with {line!r}"


def run_block(block: Block, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if block.title:
        write_file(block)
        monkeypatch.syspath_prepend(Path.cwd())
        monkeypatch.delitem(sys.modules, Path(block.title).stem, raising=False)
    elif block.language == "python":
        exec(compile(block.text, "a tutorial", "exec"), names)
    elif block.language == "console":
        for line in block.text.replace("\\\n", " ").splitlines():
            assert line.startswith("$ "), f"{line!r} is no command: output stands in a block of text"
            run_line(line[2:], monkeypatch)
    else:
        assert block.language == "text"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train, replaced = ucb_moppo.train, SMALL | {"executor": "local", "quiet": True}
    monkeypatch.setattr(ucb_moppo, "train", lambda problem, **given: train(problem, **given | replaced))
    blocks, names = blocks_of(page), {"__name__": "tutorial"}
    assert any(block.language == "python" for block in blocks)
    for block in blocks:
        run_block(block, names, monkeypatch)
    assert (tmp_path / "runs").is_dir()


def test_no_block_is_overlooked() -> None:
    """Every fence of every page opens or closes a block that is executed."""
    for page in TUTORIALS:
        fences = re.findall(r"^\s*```", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks_of(page)), page.name


def test_small_commands_are_those_of_the_page_but_for_their_size() -> None:
    given = shlex.split("train Hopper-v2 --steps 1000000 --executor processes --shards 2 --out runs/two")
    small = make_small(given)
    assert small[:4] == ["train", "Hopper-v2", "--out", "runs/two"]
    assert small[small.index("--shards") + 1] == "2"
    assert small[small.index("--steps") + 1] == str(SMALL["steps"])
    cli.parse_train([*small[1:], "--preset", "quick"])  # every option is one
