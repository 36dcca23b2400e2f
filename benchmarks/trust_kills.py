"""Kill runs at random moments and resume them: every one must end like a run that was left alone, byte for byte.

    python benchmarks/trust_kills.py --kills 200

Signals SIGKILL, SIGTERM and SIGINT, to the leader or the whole group, with somebody who reads what it says and with
nobody, in this process and in processes, our method and PD-MORL. What was done is noted after every kill, so that
the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from trust_campaign import SMALL, begin_notes, run_by_command_line, write_notes
from trust_starter import StartedProcess, Starter

from ucb_moppo.store.checkpoint import list_checkpoints

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CLOCK = ("seconds", "stage_seconds")
LENGTH = {"steps": 4_800, "checkpoint_seconds": 1}
THEIRS = {"horizon": 50, "evaluations": 4}
THEIR_SETTINGS = [f"--set={one}" for one in ("workers=4", "cells=32", "batch=32", "key_batch=32")]
PATIENCE = 6 * 3600.0  # a busy machine takes its time; how long is among the figures
CACHE = "JAX_COMPILATION_CACHE_DIR"


def options(settings: dict[str, Any]) -> list[str]:
    """Settings as options of the command line, for a run of a few seconds."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in (settings | LENGTH).items()]


KINDS = {
    "ucb local": options(SMALL | {"executor": "local"}),
    "ucb processes": options(SMALL | {"executor": "processes", "shards": 2}),
    "pdmorl": ["--method=pdmorl", *options(THEIRS), *THEIR_SETTINGS],
}


class Place:
    """A folder for runs, what they say and what they have compiled, and a process that starts them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        self.words, self._cache, self._compiled = (self.path / name for name in ("words", "cache", "compiled"))
        self._cache.mkdir()
        self.starter = Starter({CACHE: str(self._cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"})

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *fault: object) -> None:
        self.starter.close()
        self._folder.cleanup()

    def keep_compiled(self) -> None:
        """What a run that has ended well has left in the cache is sound."""
        shutil.copytree(self._cache, self._compiled, dirs_exist_ok=True)

    def restore_compiled(self) -> None:
        """A run that was killed may have left half a file in the cache."""
        shutil.rmtree(self._cache)
        shutil.copytree(self._compiled, self._cache)


# --- one run -----------------------------------------------------------------------------------------------


@contextmanager
def started(starter: Starter, *arguments: str, words: Path | None = None) -> Iterator[StartedProcess]:
    """The command in a group of its own, whose words are written down, or which nobody reads from the first on."""
    reading, writing = os.pipe()
    reader = None
    if words is not None:
        with words.open("wb") as file:
            reader = subprocess.Popen(["cat"], stdin=reading, stdout=file)
    process = starter.start(arguments, writing)
    os.close(reading)
    os.close(writing)
    try:
        yield process
    finally:
        if process.wait(0) is None:
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


def processor_seconds(pid: int) -> float:
    """What a process itself has spent so far; its clock, as seconds pass slower on a machine with other work."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return math.inf
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_spent(process: StartedProcess, seconds: float) -> float:
    """Wait until a process has spent so many seconds or has ended; what it had spent when last seen."""
    spent = 0.0
    while process.wait(0.005) is None:
        now = processor_seconds(process.pid)
        spent = max(spent, now if now < math.inf else 0.0)
        if now >= seconds:
            break
    return spent


# --- one kill ----------------------------------------------------------------------------------------------


def kill_and_resume(
    kind: str, how: dict[str, Any], after: float, place: Place, whole: dict[str, Any]
) -> dict[str, Any]:
    """Kill a run after so many seconds of its processor time, continue it to the end and compare."""
    run = place.path / "run"
    shutil.rmtree(run, ignore_errors=True)
    place.restore_compiled()
    with started(place.starter, *train(kind, run), words=place.words if how["read"] else None) as process:
        wait_until_spent(process, after)
        ended_before = process.wait(0) is not None
        saved, sent = newest_checkpoint(run), time.time()
        if not ended_before:
            (os.killpg if how["group"] else os.kill)(process.pid, how["signal"])
        code = process.wait(PATIENCE)
        seconds = time.time() - sent
    after_stop = newest_checkpoint(run)
    lost = None if after_stop is None or ended_before else max(0.0, sent - after_stop[1])
    fault = finish(kind, run, place)
    return {
        **{"kind": kind, "signal": how["signal"].name, "group": how["group"], "read": how["read"]},
        **{"after": round(after, 2), "ended_before": ended_before, "exit_code": code, "fault": fault},
        **{"seconds_to_stop": round(seconds, 2), "seconds_lost": lost, "checkpoint": saved and saved[0]},
        "differs": fault or [name for name, value in contents(run).items() if value != whole["contents"][name]],
        "iterations_lost": None if lost is None or after_stop is None else count_lost(lost, after_stop[0], whole),
    }


def count_lost(seconds: float, saved: int, whole: dict[str, Any]) -> float:
    """Iterations in the seconds since a checkpoint; no more than there were left to do."""
    return round(min(seconds / whole["seconds_per_iteration"], whole["iterations"] - saved), 1)


def finish(kind: str, run: Path, place: Place) -> str:
    """Resume, or train where nothing had been begun; what went wrong, if anything did."""
    command = ["resume", str(run)] if (run / "config.json").exists() else train(kind, run)
    place.restore_compiled()
    with started(place.starter, *command, words=place.words) as process:
        code = process.wait(PATIENCE)
    if code == 0:
        place.keep_compiled()
    return f"{command[0]} ended with {code}: {place.words.read_text()[-500:]}" if code else ""


# --- the campaign ------------------------------------------------------------------------------------------


def train_whole(kind: str, place: Place) -> dict[str, Any]:
    """A run that is left alone: what it leaves, what it spends, and how long its iterations take.

    The second of two: the first compiles, which those that are killed need not do.
    """
    run, spent_in_all = place.path / kind.replace(" ", "-"), 0.0
    for _ in range(2):
        shutil.rmtree(run, ignore_errors=True)
        with started(place.starter, *train(kind, run), words=place.words) as process:
            spent_in_all = wait_until_spent(process, math.inf)
            code = process.wait(PATIENCE)
        if code:
            raise SystemExit(f"the run of {kind} that is left alone failed: {place.words.read_text()[-500:]}")
        place.keep_compiled()
    last = newest_checkpoint(run)
    spent = json.loads((run / "summary.json").read_text())["seconds"]
    iterations = max(1, last[0] if last else 1)
    return {
        "contents": contents(run),
        "processor_seconds": spent_in_all,
        "iterations": iterations,
        "seconds_per_iteration": spent / iterations,
    }


def plan(kills: int, seed: int) -> list[tuple[str, dict[str, Any], float]]:
    """What is killed, how, and at which share of its time: every combination in turn, in an order of its own."""
    rng = random.Random(seed)
    ways = list(product(KINDS, SIGNALS, (False, True), (True, False)))
    rng.shuffle(ways)
    chosen = [ways[number % len(ways)] for number in range(kills)]
    return [(kind, {"signal": s, "group": g, "read": r}, rng.uniform(0, 1.05)) for kind, s, g, r in chosen]


def run_campaign(kills: int, seed: int, out: Path | None, max_seconds: float) -> dict[str, Any]:
    """Kill until there are enough or time is up; figures so far go to ``out``."""
    begun = time.monotonic()
    found = begin_notes(out, seed, "python benchmarks/trust_kills.py", {"kills": []})
    with Place() as place:
        whole = dict[str, dict[str, Any]]()
        for kind, how, share in plan(kills, seed)[len(found["kills"]) :]:
            if time.monotonic() - begun > max_seconds:
                break
            whole[kind] = whole.get(kind) or train_whole(kind, place)
            after = share * whole[kind]["processor_seconds"]
            found["kills"].append(kill_and_resume(kind, how, after, place, whole[kind]))
            found["figures"] = summarise(found["kills"])
            write_notes(out, found)
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
    found = run_by_command_line(str(__doc__), "kills", 200, run_campaign)
    print(json.dumps(found.get("figures"), indent=2))


if __name__ == "__main__":
    main()
