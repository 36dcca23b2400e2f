"""Shells complete what --help shows."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ucb_moppo.cli.completion import make_script, options_in
from ucb_moppo.cli.main import COMMANDS

HELP = """usage: ucb-moppo thing
╭─ options ──────────────────────────────╮
│ -h, --help   show this help            │
│ --out PATH   Where --quiet goes.       │
│ --kind {a,b-2,module:name}             │
│              Which.                    │
│ --set NAME=VALUE                       │
│ --point {[FLOAT [FLOAT ...]]}          │
│ --quiet      Say nothing.              │
│ --fade, --no-fade                      │
│              Fade away.                │
╰────────────────────────────────────────╯"""


@pytest.mark.parametrize("text", [HELP, HELP.replace("│", " ")], ids=["framed", "plain"])
def test_options_and_their_values_are_read_off_the_help(text: str) -> None:
    assert options_in(text) == {
        "--help": None,
        "--out": [],
        "--kind": ["a", "b-2"],
        "--set": [],
        "--point": [],
        "--quiet": None,
        "--fade": None,
        "--no-fade": None,
    }


@pytest.fixture(scope="module")
def bash() -> str:
    return make_script("bash", COMMANDS)


def completions(script: str, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in ("ucb-moppo", *words))
    ask = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _ucb_moppo; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("",), [*COMMANDS]),
        (("re",), ["resume", "report"]),
        (("train", "Hop"), ["Hopper-v2", "Hopper-v3"]),
        (("train", "--method", "p"), ["pgmorl", "pdmorl"]),
        (("train", "Hopper-v2", "--acq"), ["--acquisition"]),
        (("train", "Hopper-v2", "--out", ""), []),  # bash goes on with names of files
        (("evaluate", "run", "--actions", ""), ["deterministic", "sampled"]),
        (("export", "run", "--format", ""), ["safetensors", "onnx", "numpy"]),
        (("completion", "z"), ["zsh"]),
    ],
)
def test_bash_completes(bash: str, words: tuple[str, ...], offered: list[str]) -> None:
    assert completions(bash, *words) == offered


def test_every_option_that_help_shows_is_completed(bash: str) -> None:
    for name in COMMANDS:
        assert f"{name}) words=" in bash
    train = next(line for line in bash.splitlines() if line.strip().startswith("train) words="))
    assert {"--seed", "--steps", "--preset", "--gamma", "--tensorboard", "Swimmer-v2"} <= set(train.split())


def test_zsh_is_given_the_same_words(bash: str) -> None:
    zsh = make_script("zsh", COMMANDS)
    assert zsh.startswith("#compdef ucb-moppo\n")
    assert zsh.rstrip().endswith("compdef _ucb_moppo ucb-moppo")
    ours = [line.split("=", 1)[1].strip('"() ;') for line in bash.splitlines() if ") words=" in line]
    theirs = [line.split("=", 1)[1].strip('"() ;') for line in zsh.splitlines() if ") found=" in line]
    assert ours == theirs


def zsh_completions(script: str, *words: str) -> list[str]:
    """What zsh is offered for the last of the words; compadd here takes what begins like it, as zsh's own does."""
    line = " ".join(f"'{word}'" for word in ("ucb-moppo", *words))
    stubs = (
        "compdef() { : }; _files() { print FILES }; "
        "compadd() { local -a m=(${(M)found:#${words[CURRENT]}*}); (( $#m )) && print -rl -- $m }"
    )
    ask = f"{stubs}\n{script}\nwords=({line}); CURRENT={len(words) + 1}; _ucb_moppo"
    done = subprocess.run(["zsh", "-f", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("re",), ["resume", "report"]),
        (("train", "--method", "p"), ["pgmorl", "pdmorl"]),
        (("train", "Hop"), ["Hopper-v2", "Hopper-v3"]),
        (("train", "--out", ""), ["FILES"]),
        (("evaluate", "run", "--actions", "s"), ["sampled"]),
    ],
)
def test_zsh_completes(words: tuple[str, ...], offered: list[str]) -> None:
    assert zsh_completions(make_script("zsh", COMMANDS), *words) == offered
