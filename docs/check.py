"""Check that the documents hold: links lead somewhere, commands and options exist, named code is there, Python can
be read, diagrams are as they are drawn.

python docs/check.py
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from diagrams import outdated

from ucb_moppo.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
SHOWN = re.compile(r'<(?:img|video|source)\b[^>]*\bsrc="([^":]+)"')
CODE = re.compile(r"`((?:\w+/)*\w+\.py)::(\w+)`")
COMMAND = re.compile(r"^\s*(?:\$ )?(ucb-moppo [^#|\n]*)", re.MULTILINE)


def documents() -> list[Path]:
    rooms = [path for room in ("docs", "examples") for path in (ROOT / room).glob("**/*.md")]
    return sorted([*ROOT.glob("*.md"), *rooms, ROOT / "results" / "README.md"])


@cache
def help_of(command: str, *options: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        COMMANDS[command]([*options, "--help"])
    return out.getvalue()


@cache
def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    targets = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    return defined | {target.id for target in targets if isinstance(target, ast.Name)}


def broken_links(path: Path, text: str) -> Iterator[str]:
    for target in (*LINK.findall(text), *SHOWN.findall(text)):
        if not (path.parent / target).exists():
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
            # Another method has other options.
            method = words[words.index("--method") : words.index("--method") + 2] if "--method" in words else []
            known = help_of(words[0], *method)
            missing = [w for w in words if w.startswith("--") and w.split("=")[0] not in known]
            yield from (f"uses {option} of `{words[0]}`, which has no such option" for option in missing)
        elif words and not words[0].startswith("-"):
            yield f"uses the command {words[0]}, which does not exist"


def broken_python(text: str) -> Iterator[str]:
    for block in re.findall(r"```python[^\n]*\n(.*?)```", text, re.DOTALL):
        try:
            ast.parse(block)
        except SyntaxError as fault:
            yield f"has Python that cannot be read: {fault}"


def main() -> None:
    faults = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for fault in (
            *broken_links(path, text),
            *broken_code(text),
            *broken_commands(text),
            *broken_python(text),
        ):
            faults.append(f"{path.relative_to(ROOT)} {fault}")
    faults += [f"images/{name} is not what docs/diagrams.py draws: run it" for name in outdated()]
    print("\n".join(faults) if faults else f"{len(documents())} documents hold")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
