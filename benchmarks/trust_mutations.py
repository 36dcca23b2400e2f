"""Open thousands of mutated run directories, each in a process with 1 GiB: nothing may crash, hang or load wrongly.

    python benchmarks/trust_mutations.py --mutations 10000

Bits are flipped, files cut, exchanged for links, pipes and folders, JSON and tables changed where it hurts, with
and without a manifest that vouches for it. Each is read by `load`, `show`, `report` and the viewer's loader. What
was done is noted every few cases, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from trust_campaign import SMALL, begin_notes, run_by_command_line, write_notes
from trust_drawing import drawing_once

import ucb_moppo
from ucb_moppo.errors import UcbMoppoError
from ucb_moppo.store.layout import LIMITS, MANIFEST, next_name
from ucb_moppo.store.storage import make_digest

GIB, PATIENCE, TOGETHER = 1 << 30, 10.0, 20
FILES = [*LIMITS, MANIFEST, "interpolation.csv"]
NASTY: list[Any] = [
    *(None, True, -1, 0, 1.5, 10**18, 10**400, -(10**30), 1e308, "", "x", "-1", "\x1b[2J", "$x$", "=1+1", "nan"),
    *([], {}, [[]], [0] * 5, {"a": {}}, "[" * 5000, ["x", 3], "../../etc/passwd", 30_000_000, "é" * 100),
]
NOTHING: dict[str, Any] = {
    **{"done": 0, "outcomes": {}, "untyped": [], "wrong": [], "hangs": [], "victims_changed": 0},
    **{"peak_megabytes": 0, "most_processor_seconds": 0.0},
}
"""Figures of a campaign that has not begun."""
CELLS = ["", "nan", "inf", "x", "-1", "1e999", "9" * 100, "0.5", "true", '"', "1,2", "=1", "30000000"]


# --- mutations ---------------------------------------------------------------------------------------------


def write(run: Path, name: str, data: bytes, rng: random.Random, vouch: float = 0.8) -> bool:
    """Put a file there; more often than not with a manifest that agrees. Whether it does."""
    (run / name).write_bytes(data)
    if name not in LIMITS or rng.random() > vouch:
        return False
    manifest = json.loads((run / MANIFEST).read_text())
    manifest["files"][name] = [make_digest(data).to_json()]
    (run / MANIFEST).write_text(json.dumps(manifest))
    return True


def flip_bits(run: Path, rng: random.Random) -> bool:
    name = rng.choice(FILES)
    data = bytearray((run / name).read_bytes())
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return write(run, name, bytes(data), rng, 0.5)


def truncate(run: Path, rng: random.Random) -> bool:
    name = rng.choice(FILES)
    data = (run / name).read_bytes()
    return write(run, name, data[: rng.randrange(len(data))], rng, 0.5)


def extend(run: Path, rng: random.Random) -> bool:
    """More of the same, or a sparse file that only looks large."""
    name = rng.choice(FILES)
    if rng.random() < 0.3:
        os.truncate(run / name, rng.choice([1 << 24, 1 << 28, 1 << 30, 1 << 36]))
        return False
    data = (run / name).read_bytes()
    return write(run, name, data * rng.randint(2, 50), rng)


def change_json(run: Path, rng: random.Random) -> bool:
    """Any value anywhere becomes another, or is gone, or is there twice."""
    name = rng.choice(["config.json", "summary.json", "policies.json", "metrics.jsonl", MANIFEST])
    lines = (run / name).read_text().splitlines() if name[-1] == "l" else [(run / name).read_text()]
    place = rng.randrange(len(lines))
    data = json.loads(lines[place])
    change_somewhere(data, rng)
    lines[place] = json.dumps(data)
    return write(run, name, ("\n".join(lines) + "\n").encode(), rng, 0.95)


def change_somewhere(data: Any, rng: random.Random) -> None:
    while True:
        keys = list(data) if isinstance(data, dict) else range(len(data))
        if not keys:
            return
        key = rng.choice(list(keys))
        if isinstance(data[key], (dict, list)) and data[key] and rng.random() < 0.8:
            data = data[key]
            continue
        how = rng.random()
        if how < 0.7:
            data[key] = rng.choice(NASTY)
        elif how < 0.85:
            del data[key]
        elif isinstance(data, dict):
            data[rng.choice(["x", "", "finished", "extra_indicators", "stopped"])] = rng.choice(NASTY)
        else:
            data.append(data[key])
        return


def change_table(run: Path, rng: random.Random) -> bool:
    """A cell, a row or a column of a table becomes another or is gone."""
    name = rng.choice(["front.csv", "evaluations.csv", "interpolation.csv"])
    rows = [line.split(",") for line in (run / name).read_text().splitlines()]
    how, row = rng.randrange(5), rng.randrange(len(rows))
    column = rng.randrange(len(rows[0]))
    if how == 0:
        del rows[row]
    elif how == 1:
        rows.insert(row, list(rows[row]))
    elif how == 2:
        for one in rows:
            del one[column]
    else:
        for one in rows[row : row + rng.choice([1, 1, len(rows)])]:
            one[column] = rng.choice(CELLS)
    return write(run, name, "\n".join(map(",".join, rows)).encode(), rng, 0.95)


def change_tensors(run: Path, rng: random.Random) -> bool:
    """The header of the policies' arrays says something else."""
    data = (run / "policies.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change_somewhere(header, rng)
    text = json.dumps(header).encode()
    return write(
        run, "policies.safetensors", len(text).to_bytes(8, "little") + text + data[8 + length :], rng, 0.95
    )


def put_something_else(run: Path, rng: random.Random) -> bool:
    """A link, a pipe, a device, a folder or nothing in the place of a file."""
    path = run / rng.choice([*FILES, "checkpoints", "videos", next_name(rng.choice(list(LIMITS)))])
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    how = rng.randrange(6)
    if how == 0:
        os.mkfifo(path)
    elif how == 1:
        path.symlink_to(rng.choice(["/dev/zero", "/dev/random", "/etc/passwd", "/", path.name, "manifest.json"]))
    elif how == 2:
        path.mkdir()
    elif how == 3:
        os.link(run / ".victim", path)
    elif how == 4:
        path.write_bytes(rng.randbytes(rng.choice([0, 1, 1000])))
    return False


def exchange(run: Path, rng: random.Random) -> bool:
    """One file in the place of another, or beside it as if it were of the next stage."""
    one, other = rng.sample(list(LIMITS), 2)
    if rng.random() < 0.5:
        (run / next_name(other)).write_bytes((run / one).read_bytes())
        return False
    return write(run, other, (run / one).read_bytes(), rng)


MUTATIONS: list[Callable[[Path, random.Random], bool]] = [
    *(flip_bits, truncate, extend, put_something_else, exchange, change_tensors),
    *(change_json, change_json, change_json, change_table, change_table),
]


# --- reading -----------------------------------------------------------------------------------------------


def read_everything(path: Path) -> Any:
    """All that loading a run tells."""
    run = ucb_moppo.load(path)
    tables = {name: column.tobytes() for name, column in {**run.evaluations(), **run.table()}.items()}
    policy = run.policy([1 / run.spec.num_objectives] * run.spec.num_objectives)
    tensors = {name: array.tobytes() for name, array in run.tensors().items()}
    return repr((run.config, run.summary, run.metrics(), tables, run.spec, tensors, policy.index))


def show(path: Path) -> None:
    from ucb_moppo.cli.main import print_run

    print_run(path)


def report(path: Path) -> None:
    from ucb_moppo.report import write_report

    with tempfile.TemporaryDirectory() as place:
        write_report([path], place)


def view(path: Path) -> None:
    from ucb_moppo.viewer.sources import open_sources

    fault = open_sources(path, None)["main"].read().fault
    if "cannot be read as a run:" in fault:  # which the page shows too, but nobody had foreseen
        raise AssertionError(fault)


READERS: dict[str, Callable[[Path], Any]] = {"load": read_everything, "show": show, "report": report, "view": view}


def read_all(path: Path, expected: str | None) -> Iterator[tuple[str, str]]:
    """Outcomes of all readers: fine, refused, wrong (it differs from ``expected``), or an error of another type."""
    for name, read in READERS.items():
        limit_processor()
        try:
            found = read(path)
            wrong = name == "load" and expected is not None and found != expected
            yield name, "wrong" if wrong else "fine"
        except UcbMoppoError:
            yield name, "refused"
        except BaseException:
            yield name, traceback.format_exc(limit=-3)[-1000:]


def limit_processor() -> None:
    """End this process once it has taken 10 seconds more of its processor."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + PATIENCE) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


Reading = tuple[list[tuple[str, str]], int, float]
"""What all readers made of a directory, the process's peak memory so far in MiB, and seconds of processor time."""


def read_apart(runs: Sequence[tuple[Path, str | None]]) -> list[Reading]:
    """Directories, each with what it must say, read in a child with 1 GiB; as many as it lives to read.

    A reader hangs that takes more than 10 seconds of processor time, or spends as many waiting for anything else
    than the processor: what other work on the machine takes is no hang. Either ends the child, and with it the
    reading of that directory.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            read_limited(runs, writing)
        finally:  # whatever happens, a child does not go on as its parent
            os._exit(1)
    os.close(writing)
    lines = [json.loads(line) for line in read_lines(reading, child)]
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    found = gather(lines)
    if len(lines) < len(runs) * len(READERS):
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        hung = ended in (signal.SIGXCPU, signal.SIGKILL)
        if len(lines) % len(READERS) == 0:
            found.append(([], 0, 0.0))
        outcomes = found[-1][0]
        outcomes.append((list(READERS)[len(outcomes)], "hang" if hung else "died"))
        found[-1] = (
            outcomes,
            usage.ru_maxrss >> 10,
            usage.ru_utime + usage.ru_stime - sum(x[2] for x in found[:-1]),
        )
    return found


def read_limited(runs: Sequence[tuple[Path, str | None]], writing: int) -> None:
    """Read in this process, which has 1 GiB from now on; a line for each reader of each directory."""
    resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        os.dup2(nowhere.fileno(), 2)
        for number, (path, expected) in enumerate(runs):
            for reader, outcome in read_all(path, expected):
                used = resource.getrusage(resource.RUSAGE_SELF)
                spent = [used.ru_maxrss >> 10, used.ru_utime + used.ru_stime]
                os.write(writing, json.dumps([number, reader, outcome, *spent]).encode() + b"\n")


def gather(lines: Sequence[Sequence[Any]]) -> list[Reading]:
    """The lines that a child wrote, by directory."""
    found, before = list[Reading](), 0.0
    for _, its in groupby(lines, key=itemgetter(0)):
        all_its = list(its)
        *_, megabytes, seconds = all_its[-1]
        found.append(([(reader, outcome) for _, reader, outcome, *_ in all_its], megabytes, seconds - before))
        before = seconds
    return found


def read_lines(reading: int, child: int) -> list[bytes]:
    """Whole lines out of a pipe until it ends, or until nothing has come while its writer idled for too long."""
    data, idle, begun = b"", 0.0, time.monotonic()
    while True:
        if select.select([reading], [], [], 0.5)[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                break
            data, idle = data + part, idle_seconds(child, begun)
        elif idle_seconds(child, begun) - idle > PATIENCE:
            break
    os.close(reading)
    return data.split(b"\n")[:-1]


def idle_seconds(process: int, begun: float) -> float:
    """How long a process has neither had a processor nor waited for one, since it was begun."""
    passed = time.monotonic() - begun
    nanoseconds = Path(f"/proc/{process}/schedstat").read_text().split()[:2]
    return passed - sum(map(int, nanoseconds)) * 1e-9


# --- the campaign ------------------------------------------------------------------------------------------


def make_base(path: Path) -> Path:
    """A small run with everything that may lie in one."""
    settings = SMALL | {"steps": 1600, "quiet": True}
    command = f"import ucb_moppo; ucb_moppo.train('Swimmer-v2', out={str(path)!r}, **{settings!r})"
    if os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", command]):  # JAX stays out of this process
        raise SystemExit("the run to mutate could not be made")
    columns = "weights_per_policy,hypervolume,expected_utility,sparsity,cardinality,evaluation_steps,episodes"
    (path / "interpolation.csv").write_text(f"{columns}\n2,1.5,2.5,0.5,3,40,1\n4,1.75,2.5,0.25,5,80,1\n")
    (path / "videos").mkdir()
    (path / ".victim").write_bytes(b"precious")
    return path


def warm_up(base: Path, place: Path) -> str:
    """Import and draw, once for all children, what reading needs; what the sound run says."""
    run = Path(shutil.copytree(base, place / "run"))  # pictures have a run's name
    with drawing_once(), open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        for read in READERS.values():
            read(run)
    expected = read_everything(run)
    shutil.rmtree(run)
    gc.freeze()  # a child need not look for rubbish in what was there before
    return str(expected)


def try_some(base: Path, place: Path, seed: int, numbers: Sequence[int], expected: str) -> list[dict[str, Any]]:
    """Make and read some mutated directories: which mutation, what came of it."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        cases = [make_case(base, Path(folder) / str(number) / "run", seed, number) for number in numbers]
        runs = [(case["run"], None if case["vouched"] else expected) for case in cases]
        found = list[Reading]()
        while len(found) < len(runs):
            found += read_apart(runs[len(found) :])
        for case, (outcomes, megabytes, seconds) in zip(cases, found, strict=True):
            intact = (case.pop("run") / ".victim").read_bytes() == b"precious"
            case |= {"outcomes": outcomes, "megabytes": megabytes, "seconds": seconds, "victim_intact": intact}
    return cases


def make_case(base: Path, run: Path, seed: int, number: int) -> dict[str, Any]:
    """The mutated directory of a number, always the same."""
    rng = random.Random(f"{seed}-{number}")
    shutil.copytree(base, run)
    mutate = rng.choice(MUTATIONS)
    return {"number": number, "mutation": mutate.__name__, "run": run, "vouched": mutate(run, rng)}


def run_campaign(count: int, seed: int, out: Path | None, max_seconds: float) -> dict[str, Any]:
    """Try mutations until there are enough or time is up; figures so far go to ``out``."""
    found, begun = begin_notes(out, seed, "python benchmarks/trust_mutations.py", NOTHING), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        base = make_base(Path(place) / "base")
        expected = warm_up(base, Path(place))
        while found["done"] < count and time.monotonic() - begun < max_seconds:
            numbers = range(found["done"], min(count, found["done"] + TOGETHER))
            for case in try_some(base, Path(place), seed, numbers, expected):
                add_figures(found, case)
            write_notes(out, found)
    return found


def add_figures(found: dict[str, Any], case: dict[str, Any]) -> None:
    counts = Counter(found["outcomes"])
    for reader, outcome in case["outcomes"]:
        known = outcome in ("fine", "refused", "wrong", "hang", "died")
        counts[f"{reader} {outcome if known else 'untyped'}"] += 1
        where = {"number": case["number"], "mutation": case["mutation"], "reader": reader}
        if outcome == "wrong":
            found["wrong"].append(where)
        elif outcome == "hang":
            found["hangs"].append(where)
        elif outcome not in ("fine", "refused"):
            found["untyped"].append(where | {"error": outcome[-600:]})
    found["outcomes"] = dict(sorted(counts.items()))
    found["victims_changed"] += not case["victim_intact"]
    found["peak_megabytes"] = max(found["peak_megabytes"], case["megabytes"])
    found["most_processor_seconds"] = max(found["most_processor_seconds"], round(case["seconds"], 2))
    found["done"] += 1


def main() -> None:
    found = run_by_command_line(str(__doc__), "mutations", 10_000, run_campaign)
    print(json.dumps({name: value for name, value in found.items() if name != "untyped"}, indent=2))
    print(f"{len(found['untyped'])} untyped errors, of which the first: {found['untyped'][:1]}")


if __name__ == "__main__":
    main()
