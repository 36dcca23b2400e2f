"""What makes a shell complete the command line, from what --help says: commands, options and their values."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence

from ucb_moppo.envs import PROBLEMS

OPTION = re.compile(
    r"^(?:│ |  )(?:-\w, )?(--[a-z][a-z0-9-]*)(?:, (--no-[a-z0-9-]+))?(?: (?:\{([\w,:-]+)\}|(\S+)))?", re.MULTILINE
)
"""An option of tyro's help, in a frame or without, its opposite, then what values it may have, or of what kind."""

BASH = """# Completion of ucb-moppo for bash.
_ucb_moppo() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
            *)
                case "${{COMP_WORDS[1]}}" in
{options}
                esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _ucb_moppo ucb-moppo
"""

ZSH = """#compdef ucb-moppo
# Completion of ucb-moppo for zsh.
_ucb_moppo() {{
    local -a found
    if (( CURRENT == 2 )); then
        found=({commands})
    else
        case "${{words[2]}} ${{words[CURRENT-1]}}" in
{values}
            *)
                case "${{words[2]}}" in
{options}
                esac ;;
        esac
    fi
    compadd -a found || _files
}}
compdef _ucb_moppo ucb-moppo
"""


def make_script(shell: str, commands: Mapping[str, Callable[[Sequence[str]], None]]) -> str:
    """The script for a shell."""
    known = {name: options_in(help_of(command)) for name, command in commands.items()}
    set_words = 'words="{}"' if shell == "bash" else "found=({})"
    values = [
        case(12, f'"{name} {option}"', set_words.format(" ".join(names)))
        for name, options in known.items()
        for option, names in options.items()
        if names is not None
    ]
    options = [
        case(20, name, set_words.format(" ".join([*options, *positional(name)]))) for name, options in known.items()
    ]
    script = BASH if shell == "bash" else ZSH
    return script.format(commands=" ".join(known), values="\n".join(values), options="\n".join(options))


def case(indent: int, pattern: str, action: str) -> str:
    return f"{' ' * indent}{pattern}) {action} ;;"


def positional(command: str) -> list[str]:
    """Words that may stand without an option, beside names of files."""
    return {"train": sorted(PROBLEMS), "completion": ["bash", "zsh"]}.get(command, [])


def help_of(command: Callable[[Sequence[str]], None]) -> str:
    """What a command says with --help, in lines that are not broken."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "1000"
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            command(["--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return said.getvalue()


def options_in(text: str) -> dict[str, list[str] | None]:
    """Options with the names that each takes: none for a free value, such as a file; None for a switch."""
    found: dict[str, list[str] | None] = {}
    for option, opposite, names, kind in OPTION.findall(text):
        if opposite:
            found |= {option: None, opposite: None}
        elif names:
            found[option] = [name for name in names.split(",") if ":" not in name]
        else:
            found[option] = [] if kind else None
    return found
