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
