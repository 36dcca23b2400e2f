"""Processes of this machine, each pinned to its share of the cores, that hold an object and answer calls of it.

A process is a fresh interpreter, never a fork: JAX has threads, and a fork copies the locks they hold. It does not
import the caller's main module either, so a script needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any

from ucb_moppo.cores import pin_process, pinned, thread_settings
from ucb_moppo.runtime.worker import WorkerLost

COMMAND = "import sys; sys.path[:] = {path!r}; from ucb_moppo.runtime.processes import serve; serve({fd}, {parent})"
SECONDS_TO_END = 2.0


def start_process(cores: Sequence[int]) -> tuple[subprocess.Popen[bytes], Connection]:
    """A new interpreter on ``cores`` that serves an object at the other end of the connection.

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
    """What ``build(*args)`` makes, in a process of its own. It is being built as soon as this is made."""

    concurrent = True

    def __init__(self, build: Callable[..., Any], args: Sequence[Any], cores: Sequence[int]) -> None:
        self._process, self.connection = start_process(cores)
        self.cores = self._allowed = list(cores)
        self._replies, self._idle = 0, False
        self._send((build, args))

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, method: str, *args: Any) -> None:
        self._replies, self._idle = self._replies + 1, False
        self._send((method, args))

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # it is gone, which ``result`` reports
            self.connection.send(message)

    def result(self) -> Any:
        value = None
        while self._replies:  # those that nobody waited for, because of a fault elsewhere, come first
            self._replies -= 1
            value = self._receive()
        return value

    def _receive(self) -> Any:
        try:
            succeeded, value = self.connection.recv()
        except (EOFError, OSError) as fault:
            code = self._process.wait()
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerLost(f"process {self.pid} ended with {ended}") from fault
        self._idle = not self._replies
        if not succeeded:
            raise value
        return value

    def borrow(self, cores: Sequence[int]) -> None:
        """Use these cores beside its own; an empty list gives back what was borrowed."""
        allowed = [*self.cores, *cores]
        if allowed != self._allowed:
            pin_process(self.pid, allowed)
            self._allowed = allowed

    def interrupt(self) -> None:
        """Ask the process to stop as Ctrl-C would."""
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Until the process ends by itself."""
        self._process.wait()

    def close(self) -> None:
        """A process that is idle ends by itself when the connection closes; one that is busy is ended."""
        self.connection.close()
        try:
            self._process.wait(SECONDS_TO_END if self._idle else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# --- in the process ----------------------------------------------------------------------------------------


def serve(descriptor: int, parent: int) -> None:
    """Build what the first message describes, then answer calls of its methods until the other end is closed."""
    # A shell that runs the parent in the background ignores SIGINT, which would be inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    connection = Connection(descriptor)
    code = 0
    try:
        with contextlib.suppress(EOFError, OSError):
            answer_calls(connection)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    os._exit(code)  # without waiting for threads of an environment's own


def answer_calls(connection: Connection) -> None:
    """The first message makes the object and has no reply; if that fails, every call fails as it did."""
    target, broken = attempt(connection.recv_bytes(), lambda build: build)
    while True:
        message = connection.recv_bytes()
        value, fault = (None, broken) if broken else attempt(message, lambda method: getattr(target, method))
        try:
            connection.send((fault is None, fault or value))
        except (pickle.PicklingError, TypeError, AttributeError) as unsendable:
            connection.send((False, portable(unsendable)))


def attempt(message: bytes, find: Callable[[Any], Callable[..., Any]]) -> tuple[Any, Exception | None]:
    """Call what a message names with the arguments in it: its value, or what it raised."""
    try:
        name, args = pickle.loads(message)
        return find(name)(*args), None
    except Exception as fault:
        return None, portable(fault)


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
    copy.add_note(f"in the process of a worker:\n{text}")
    return copy
