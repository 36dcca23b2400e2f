"""Whoever asks for help does not wait for what training needs."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("jax", "mujoco", "sklearn", "matplotlib", "pandas", "scipy", "optax", "mo_gymnasium", "moocore")
ASK = f"""
import contextlib, io, json, sys
from ucb_moppo.cli.main import COMMANDS, main
loaded = {{}}
for words in ([], *([name] for name in COMMANDS), ["train", "Hopper-v2"], ["train", "--method", "gpils"]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main([*words, "--help"])
    assert "ucb-moppo" in out.getvalue()
    loaded[" ".join(words)] = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps(loaded))
"""


def test_no_help_imports_what_is_slow_to_import() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert {"", "train", "train Hopper-v2", "bench"} <= loaded.keys()
    assert {words: found for words, found in loaded.items() if found} == {}


def test_importing_what_trains_starts_no_device() -> None:
    """Settings of JAX can still be chosen then, and a process that has only imported can be forked."""
    ask = "import ucb_moppo.training.resume, ucb_moppo.peers.pdmorl.peer\n"
    ask += "from jax._src import xla_bridge\nprint(list(xla_bridge._backends))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True)
    assert done.stdout == b"[]\n", done.stderr
