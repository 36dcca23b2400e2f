"""Work for the tests of the pool, in a module that other processes can import."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from ucb_moppo.cores import available_cores


def describe(cell: int) -> dict[str, object]:
    """The cell and where it runs."""
    threads = {name: os.environ.get(name) for name in ("NPROC", "OMP_NUM_THREADS")}
    where = {"cores": available_cores(), "allowed": sorted(os.sched_getaffinity(0))}
    return {"cell": cell, "pid": os.getpid(), **where, **threads}


def fail_or_die(cell: str) -> str:
    """A cell named `raise` fails and one named `die` takes its process with it."""
    if cell == "raise":
        raise ValueError("this cell cannot be")
    if cell == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return cell.upper()


def die_once(path: str) -> str:
    """Dies when it is begun for the first time, which a file remembers."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return "second"
    os.kill(os.getpid(), signal.SIGKILL)
    return "first"


def save_when_stopped(path: str) -> None:
    """Works for ever, if there is a path; asked to stop it leaves a file, as training leaves a checkpoint."""
    if not path:
        return
    try:
        Path(path).with_suffix(".begun").touch()  # whoever sees it may interrupt at once
        for _ in range(12_000):
            time.sleep(0.05)  # Ray interrupts between two sleeps, not in one
    except KeyboardInterrupt:
        Path(path).touch()
        raise


def finish_when_stopped(path: str) -> None:
    """Like ``save_when_stopped``, but was about to end anyway, and does."""
    with suppress(KeyboardInterrupt):
        save_when_stopped(path)


def wait_for(path: Path, seconds: float = 60) -> bool:
    """Wait until a file is there; whether it is."""
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return path.exists()


def unsendable(cell: int) -> object:
    """A result that does not pickle."""
    return lambda: cell
