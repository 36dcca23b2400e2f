"""Shards in processes of this machine, each pinned to its share of the cores.

A process is a fresh interpreter, never a fork: JAX has threads, and a fork copies the locks they hold. It does not
import the caller's main module either, so a script needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any

from ucb_moppo.config import Config
from ucb_moppo.cores import pinned, thread_settings
from ucb_moppo.workers import WorkerLost

COMMAND = "import sys; sys.path[:] = {path!r}; from ucb_moppo.processes import serve; serve({fd}, {parent})"
SECONDS_TO_END = 2.0


def start_process(cores: Sequence[int]) -> tuple[subprocess.Popen[bytes], Connection]:
    """A new interpreter on ``cores`` that serves a shard at the other end of the connection.

    It has a session of its own: Ctrl-C at the terminal is for this process alone, which decides what to do.
    """
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
    return process, ours


class ProcessWorker:
    """A shard in a process of its own. It is being built as soon as this is made; the first result waits."""

    concurrent = True

    def __init__(self, config: Config, policy_ids: Sequence[int], cores: Sequence[int]) -> None:
        self._process, self._connection = start_process(cores)
        self._replies = 1
        self._send((config, tuple(policy_ids)))

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, method: str, *args: Any) -> None:
        self._replies += 1
        self._send((method, args))

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # it is gone, which ``result`` reports
            self._connection.send(message)

    def result(self) -> Any:
        value = None
        while self._replies:  # that of the construction comes first
            self._replies -= 1
            value = self._receive()
        return value

    def _receive(self) -> Any:
        try:
            succeeded, value = self._connection.recv()
        except (EOFError, OSError) as fault:
            code = self._process.wait()
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerLost(f"process {self.pid} ended with {ended}") from fault
        if not succeeded:
            raise value
        return value

    def close(self) -> None:
        """A process that is idle ends by itself when the connection closes; one that is busy is ended."""
        self._connection.close()
        try:
            self._process.wait(0 if self._replies else SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# --- in the process of the shard ---------------------------------------------------------------------------


def serve(descriptor: int, parent: int) -> None:
    """Build the shard that the first message describes, then answer calls until the other end is closed."""
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    connection = Connection(descriptor)
    shard = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = connection.recv()
            reply: tuple[bool, Any]
            try:
                if shard is None:
                    from ucb_moppo.shard import Shard

                    shard, value = Shard(*message), None
                else:
                    method, args = message
                    value = getattr(shard, method)(*args)
                reply = True, value
            except Exception as fault:
                reply = False, portable(fault)
            connection.send(reply)
    os._exit(0)  # without waiting for threads of an environment's own


def end_with(parent: int) -> None:
    """End this process soon after its parent, however the parent ended and whatever is being done here."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def portable(fault: Exception) -> Exception:
    """The exception as another process can raise it, with the traceback from here as a note."""
    text = "".join(traceback.format_exception(fault))
    try:
        copy = pickle.loads(pickle.dumps(fault))
    except Exception:
        copy = RuntimeError(f"{type(fault).__name__}: {fault}")
    copy.add_note(f"in the process of a shard:\n{text}")
    return copy
