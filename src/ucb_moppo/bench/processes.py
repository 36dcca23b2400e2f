"""Cells side by side in processes of this machine, each pinned to its share of the cores."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple, TypeVar

from ucb_moppo.cores import available_cores, pinned, share_cores, thread_settings

C = TypeVar("C")
COMMAND = "import sys; sys.path[:] = {path!r}; from ucb_moppo.bench.processes import serve; serve({fd}, {parent})"


class Lost(NamedTuple):
    """The process of a cell ended without an answer."""

    reason: str


class Running(NamedTuple):
    cell: Any
    slot: int
    process: subprocess.Popen[bytes]
    connection: Connection


def run_cells(
    cells: Sequence[C], work: Callable[[C], Any], *, executor: str, cores: int = 0, slots: int = 0
) -> Iterator[tuple[C, Any]]:
    """``work`` done on every cell, as (cell, what it returned) in the order they end.

    Local: one after the other in this process. Processes: as many at a time as there are ``slots`` (0: cores), each
    in a fresh interpreter on its share of the ``cores`` (0: all). When this is interrupted, or closed early, the
    cells under way are asked to stop (SIGINT) and waited for.
    """
    allowed = available_cores()[: cores or None]
    if executor == "local":
        with pinned(allowed):
            for cell in cells:
                yield cell, work(cell)
        return
    slots = min(slots or len(allowed), len(allowed))
    waiting, running = list(cells), list[Running]()
    try:
        while waiting or running:
            while waiting and len(running) < slots:
                slot = min(set(range(slots)) - {one.slot for one in running})
                running.append(start(waiting.pop(0), work, slot, share_cores(allowed, slot, slots)))
            for one in ended(running):
                running.remove(one)
                yield one.cell, finish(one)
    finally:
        stop(running)


def start(cell: Any, work: Callable[[Any], Any], slot: int, cores: Sequence[int]) -> Running:
    """A fresh interpreter (never a fork: JAX has threads) in a session of its own: Ctrl-C is for us to pass on."""
    ours, theirs = Pipe()
    command = COMMAND.format(path=sys.path, fd=theirs.fileno(), parent=os.getpid())
    with pinned(cores):
        process = subprocess.Popen(
            [sys.executable, "-c", command],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | thread_settings(len(cores)),
            start_new_session=True,
        )
    theirs.close()
    with contextlib.suppress(OSError):  # it is gone already, which ``finish`` finds
        ours.send((work, cell))
    return Running(cell, slot, process, ours)


def ended(running: Sequence[Running]) -> list[Running]:
    """Those that have answered or died, after waiting for one that has."""
    ready = wait([one.connection for one in running])
    return [one for one in running if one.connection in ready]


def finish(one: Running) -> Any:
    try:
        answer = one.connection.recv()
    except (EOFError, OSError, pickle.UnpicklingError):
        answer = None
    one.connection.close()
    code = one.process.wait()
    if answer is not None:
        return answer
    return Lost(f"its process was ended by signal {-code}" if code < 0 else f"its process ended with code {code}")


def stop(running: Sequence[Running]) -> None:
    """Ask every process to stop and wait; a second interruption ends them at once."""
    for one in running:
        with contextlib.suppress(ProcessLookupError):
            one.process.send_signal(signal.SIGINT)
    try:
        for one in running:
            one.process.wait()
    finally:
        for one in running:
            one.process.kill()
            one.process.wait()


# --- in the process of a cell ------------------------------------------------------------------------------


def serve(descriptor: int, parent: int) -> None:
    """Do the work that arrives and send back what it returns."""
    # A shell that runs us in the background has SIGINT ignored, and we would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    connection = Connection(descriptor)
    try:
        work, cell = connection.recv()
        connection.send(work(cell))
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)
    os._exit(0)  # without waiting for threads of an environment's own


def end_with(parent: int) -> None:
    """End this process soon after its parent, however the parent ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
