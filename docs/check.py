"""Check that the documents hold: links lead somewhere, commands and options exist, named code is there, Python can
be read, diagrams are as they are drawn, nothing is left to be filled in.

Whoever unpacks the sources can do so too: they have no results of studies, and links to one are not followed.

python docs/check.py
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from diagrams import outdated

from ucb_moppo.cli.completion import help_of, options_in
from ucb_moppo.cli.main import COMMANDS
from ucb_moppo.registry import METHODS

ROOT = Path(__file__).resolve().parent.parent
UNPACKED = (ROOT / "PKG-INFO").is_file()
"""Whether this is no checkout but what was packed for others."""
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
SHOWN = re.compile(r'<(?:img|video|source)\b[^>]*\bsrc="([^":]+)"')
CODE = re.compile(r"`((?:\w+/)*\w+\.py)::(\w+)`")
COMMAND = re.compile(r"^\s*(?:\$ )?(ucb-moppo [^#|\n]*)", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*")
UNFILLED = re.compile(r"@@\w+@@")
OF_NO_COMMAND = {"--help", "--version", "--xla_cpu_multi_thread_eigen"}
"""Options of the program itself, and of libraries."""


def documents() -> list[Path]:
    rooms = [path for room in ("docs", "examples") for path in (ROOT / room).glob("**/*.md")]
    return sorted([*ROOT.glob("*.md"), *rooms, ROOT / "results" / "README.md"])


@cache
def options_of(command: str, *method: str) -> set[str]:
    """Every option of a command; a method of others has its own."""
    return set(options_in(help_of(lambda options: COMMANDS[command]([*method, *options])))) | {"--help"}


@cache
def all_options() -> set[str]:
    """What any command takes, with any method."""
    known = [options_of(command) for command in COMMANDS]
    return OF_NO_COMMAND.union(*known, *(options_of("train", "--method", method) for method in METHODS))


@cache
def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    targets = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    return defined | {target.id for target in targets if isinstance(target, ast.Name)}


def broken_links(path: Path, text: str) -> Iterator[str]:
    for target in (*LINK.findall(text), *SHOWN.findall(text)):
        found = (path.parent / target).resolve()
        if not found.exists() and not (UNPACKED and found.is_relative_to(ROOT / "results")):
            yield f"links to {target}, which does not exist"


def broken_code(text: str) -> Iterator[str]:
    for file, name in CODE.findall(text):
        path = ROOT / "src" / "ucb_moppo" / file
        if not path.is_file():
            yield f"names {file}, which does not exist"
        elif name not in names_in(path):
            yield f"names {name}, which is not in {file}"


def broken_commands(text: str) -> Iterator[str]:
    blocks = re.findall(r"```(?:bash|sh|console)[^\n]*\n(.*?)```", text, re.DOTALL)
    for line in COMMAND.findall("\n".join(blocks).replace("\\\n", " ")):
        words = shlex.split(line)[1:]
        if words and words[0] in COMMANDS:
            yield from unknown_options(words)
        elif words and not words[0].startswith("-"):
            yield f"uses the command {words[0]}, which does not exist"


def unknown_options(words: Sequence[str]) -> Iterator[str]:
    """Options behind a command of ours that it does not have."""
    # Another method has other options.
    method = words[words.index("--method") : words.index("--method") + 2] if "--method" in words else []
    missing = [option for option in OPTION.findall(" ".join(words)) if option not in options_of(words[0], *method)]
    yield from (f"uses {option} of `{words[0]}`, which has no such option" for option in missing)


def broken_options(text: str) -> Iterator[str]:
    """Options named in a sentence: of the command that stands before them, or of any. Others have theirs."""
    for span in SPAN.findall(FENCED.sub("", text)):
        words = span.removeprefix("ucb-moppo ").split()
        if words and words[0] in COMMANDS:
            yield from unknown_options(words)
        elif words and words[0].startswith("--"):
            missing = [option for option in OPTION.findall(span) if option not in all_options()]
            yield from (f"names {option}, which no command has" for option in missing)


def broken_python(text: str) -> Iterator[str]:
    for block in re.findall(r"```python[^\n]*\n(.*?)```", text, re.DOTALL):
        try:
            ast.parse(block)
        except SyntaxError as fault:
            yield f"has Python that cannot be read: {fault}"


def unfilled(text: str) -> Iterator[str]:
    """What somebody meant to fill in, once it was measured."""
    yield from (f"still has {mark} to be filled in" for mark in UNFILLED.findall(text))


def main() -> None:
    faults = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for fault in (
            *broken_links(path, text),
            *broken_code(text),
            *broken_commands(text),
            # A changelog speaks of all versions.
            *(broken_options(text) if path.name != "CHANGELOG.md" else ()),
            *broken_python(text),
            *unfilled(text),
        ):
            faults.append(f"{path.relative_to(ROOT)} {fault}")
    faults += [f"images/{name} is not what docs/diagrams.py draws: run it" for name in outdated()]
    print("\n".join(faults) if faults else f"{len(documents())} documents hold")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
