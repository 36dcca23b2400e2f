"""Kill runs at random moments and resume them: every one must end like a run that was left alone, byte for byte.

    python benchmarks/trust_kills.py --kills 200

Signals SIGKILL, SIGTERM and SIGINT, to the leader or the whole group, with somebody who reads what it says and with
nobody, in this process and in processes, our method and PD-MORL. What was done is noted after every kill, so that
the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from ucb_moppo.bench.provenance import code_version
from ucb_moppo.store.checkpoint import list_checkpoints

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CLOCK = ("seconds", "stage_seconds")
OURS = {
    **{"--horizon": 50, "--policies": 2, "--candidates": 8, "--active": 2, "--samples": 100, "--minibatch": 50},
    **{"--epochs": 2, "--probes": 2, "--stage-iterations": 4, "--steps": 12_000, "--checkpoint-seconds": 2},
}
THEIRS = {"--horizon": 50, "--steps": 12_000, "--evaluations": 4, "--checkpoint-seconds": 2}
THEIR_SETTINGS = [f"--set={one}" for one in ("workers=4", "cells=32", "batch=32", "key_batch=32")]
KINDS = {
    "ucb local": [*(str(x) for pair in OURS.items() for x in pair), "--executor", "local"],
    "ucb processes": [*(str(x) for pair in OURS.items() for x in pair), "--executor", "processes", "--shards", "2"],
    "pdmorl": ["--method", "pdmorl", *(str(x) for pair in THEIRS.items() for x in pair), *THEIR_SETTINGS],
}
PATIENCE = 300.0


# --- one run -----------------------------------------------------------------------------------------------


@contextmanager
def started(*arguments: str, words: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a group of its own, whose words are written down, or which nobody reads from the first on."""
    reading, writing = os.pipe()
    # A shell in the background lets its children ignore SIGINT; a run is to be asked as from a terminal.
    program = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "runpy.run_module('ucb_moppo', run_name='__main__', alter_sys=True)"
    reader = None
    if words is not None:
        with words.open("wb") as file:
            reader = subprocess.Popen(["cat"], stdin=reading, stdout=file)
    command = [sys.executable, "-c", program, *arguments]
    process = subprocess.Popen(command, stdout=writing, stderr=writing, start_new_session=True)
    os.close(reading)
    os.close(writing)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if reader is not None:
            reader.wait()


def train(kind: str, run: Path) -> list[str]:
    return ["train", "Swimmer-v2", *KINDS[kind], "--out", str(run)]


def contents(run: Path) -> dict[str, Any]:
    """Everything a run has left, without the clock."""
    names = ("config.json", "policies.json", "front.csv", "evaluations.csv", "policies.safetensors")
    found: dict[str, Any] = {name: (run / name).read_bytes() for name in names}
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for name, records in (("metrics", lines), ("summary", [json.loads((run / "summary.json").read_text())])):
        found[name] = [{key: value for key, value in one.items() if key not in CLOCK} for one in records]
    return found


def newest_checkpoint(run: Path) -> tuple[int, float] | None:
    """Iteration of the newest checkpoint, and when it was written."""
    names = list_checkpoints(run) if run.exists() else []
    if not names:
        return None
    return int(names[0].partition("-")[0]), (run / "checkpoints" / names[0]).stat().st_mtime


# --- one kill ----------------------------------------------------------------------------------------------


def kill_and_resume(
    kind: str, how: dict[str, Any], after: float, place: Path, whole: dict[str, Any]
) -> dict[str, Any]:
    """Kill a run after so many seconds, continue it to the end and compare."""
    run = place / "run"
    shutil.rmtree(run, ignore_errors=True)
    with started(*train(kind, run), words=place / "words" if how["read"] else None) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(after)
        ended_before = process.poll() is not None
        saved, sent = newest_checkpoint(run), time.time()
        if not ended_before:
            (os.killpg if how["group"] else os.kill)(process.pid, how["signal"])
        code = process.wait(PATIENCE)
        seconds = time.time() - sent
    after_stop = newest_checkpoint(run)
    lost = None if after_stop is None or ended_before else max(0.0, sent - after_stop[1])
    fault = finish(kind, run, place / "words")
    return {
        **{"kind": kind, "signal": how["signal"].name, "group": how["group"], "read": how["read"]},
        **{"after": round(after, 2), "ended_before": ended_before, "exit_code": code, "fault": fault},
        **{"seconds_to_stop": round(seconds, 2), "seconds_lost": lost, "checkpoint": saved and saved[0]},
        "differs": fault or [name for name, value in contents(run).items() if value != whole["contents"][name]],
        "iterations_lost": None if lost is None else round(lost / whole["seconds_per_iteration"], 1),
    }


def finish(kind: str, run: Path, words: Path) -> str:
    """Resume, or train where nothing had been begun; what went wrong, if anything did."""
    command = ["resume", str(run)] if (run / "config.json").exists() else train(kind, run)
    with started(*command, words=words) as process:
        code = process.wait(PATIENCE)
    return f"{command[0]} ended with {code}: {words.read_text()[-500:]}" if code else ""


# --- the campaign ------------------------------------------------------------------------------------------


def train_whole(kind: str, place: Path) -> dict[str, Any]:
    """A run that is left alone: what it leaves, how long it takes, and how long its iterations do."""
    run, begun = place / kind.replace(" ", "-"), time.time()
    with started(*train(kind, run), words=place / "words") as process:
        code = process.wait(PATIENCE)
    if code:
        raise SystemExit(f"the run of {kind} that is left alone failed: {(place / 'words').read_text()[-500:]}")
    seconds, last = time.time() - begun, newest_checkpoint(run)
    spent = json.loads((run / "summary.json").read_text())["seconds"]
    iterations = last[0] if last else 1
    return {"contents": contents(run), "seconds": seconds, "seconds_per_iteration": spent / max(1, iterations)}


def plan(kills: int, seed: int) -> list[tuple[str, dict[str, Any], float]]:
    """What is killed, how, and at which share of its time: every combination in turn, in an order of its own."""
    rng = random.Random(seed)
    ways = list(product(KINDS, SIGNALS, (False, True), (True, False)))
    rng.shuffle(ways)
    chosen = [ways[number % len(ways)] for number in range(kills)]
    return [(kind, {"signal": s, "group": g, "read": r}, rng.uniform(0, 1.05)) for kind, s, g, r in chosen]


def run_campaign(kills: int, seed: int, out: Path | None, max_seconds: float) -> dict[str, Any]:
    """Kill until there are enough or time is up; figures so far go to ``out``."""
    commit, begun = code_version(), time.monotonic()
    found: dict[str, Any] = {
        "seed": seed,
        "commit": commit,
        "command": "python benchmarks/trust_kills.py",
        "kills": [],
    }
    if out is not None and out.exists():
        noted = json.loads(out.read_text())
        found = noted if (noted["seed"], noted["commit"]) == (seed, commit) else found
    with tempfile.TemporaryDirectory() as place:
        whole: dict[str, dict[str, Any]] = {}
        for kind, how, share in plan(kills, seed)[len(found["kills"]) :]:
            if time.monotonic() - begun > max_seconds:
                break
            whole[kind] = whole.get(kind) or train_whole(kind, Path(place))
            after = share * whole[kind]["seconds"]
            found["kills"].append(kill_and_resume(kind, how, after, Path(place), whole[kind]))
            found["figures"] = summarise(found["kills"])
            if out is not None:
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(json.dumps(found, indent=1) + "\n")
    return found


def summarise(kills: list[dict[str, Any]]) -> dict[str, Any]:
    """Ends byte-equal, work lost and time to stop, by signal."""
    figures: dict[str, Any] = {"kills": len(kills), "byte_equal": sum(not kill["differs"] for kill in kills)}
    for number in SIGNALS:
        its = [kill for kill in kills if kill["signal"] == number.name and not kill["ended_before"]]
        lost = sorted(kill["iterations_lost"] for kill in its if kill["iterations_lost"] is not None)
        stop = sorted(kill["seconds_to_stop"] for kill in its)
        figures[number.name] = {
            **{"kills": len(its), "exit_codes": sorted({kill["exit_code"] for kill in its})},
            **{f"iterations_lost_{name}": value for name, value in spread(lost).items()},
            **{f"seconds_to_stop_{name}": value for name, value in spread(stop).items()},
        }
    return figures


def spread(values: list[float]) -> dict[str, float]:
    return {"median": values[len(values) // 2], "most": values[-1]} if values else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=6 * 3600)
    parser.add_argument("--out", type=Path, default=Path("results/trust/kills.json"))
    choice = parser.parse_args()
    found = run_campaign(choice.kills, choice.seed, choice.out, choice.max_seconds)
    print(json.dumps(found.get("figures"), indent=2))


if __name__ == "__main__":
    main()
