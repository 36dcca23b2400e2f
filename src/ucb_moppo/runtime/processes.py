"""Processes of this machine, each with its share of the cores, that hold an object and answer calls of it.

A process is a fresh interpreter, never a fork: JAX has threads, and a fork copies the locks they hold. It does not
import the caller's main module either, so a script needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeVar

from ucb_moppo.cores import LIMIT, pin_process, pinned, thread_settings
from ucb_moppo.runtime.place import SAFE_PATH, Place
from ucb_moppo.runtime.worker import HeldObject, Request, Worker, WorkerLost, unpack_reply

Object = TypeVar("Object")

COMMAND = (
    "import sys; sys.path[:] = {path!r}; "
    "from ucb_moppo.runtime.processes import serve_object; serve_object({fd}, {parent}, {interruptible})"
)
SECONDS_TO_END = 2.0
FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a run to stop, which it does as a whole."""


def start_process(
    cores: Sequence[int], interruptible: bool, counted: bool
) -> tuple[subprocess.Popen[bytes], Connection]:
    """A new interpreter on ``cores`` that serves an object at the other end of the connection.

    Cores that are ``counted`` are as many as these, whichever are free.

    It leaves signals to this process, which decides what to do: it has a session of its own, so that Ctrl-C at the
    terminal does not reach it, and ignores those that are sent to every process there is. Calls of one that is
    ``interruptible`` this process may interrupt.
    """
    ours, theirs = Pipe()
    command = COMMAND.format(path=sys.path, fd=theirs.fileno(), parent=os.getpid(), interruptible=interruptible)
    limits = thread_settings(len(cores)) | ({LIMIT: str(len(cores))} if counted else {})
    with contextlib.nullcontext() if counted else pinned(cores), signals_held():
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | limits | SAFE_PATH,
            start_new_session=True,
        )
    theirs.close()
    return process, ours


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold back signals for a moment: what is started meanwhile holds them back until it can let them pass."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ProcessWorker(Worker[Object]):
    """What the call ``building`` makes, in a process of its own. It is being built as soon as this is made."""

    def __init__(self, building: Request, cores: Sequence[int], interruptible: bool, counted: bool = False) -> None:
        message = building.pack()
        self._process, self.connection = start_process(cores, interruptible, counted)
        self.cores = self._allowed = list(cores)
        self._owes, self._idle = False, False
        self._send(message)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _begin(self, request: Request) -> Callable[[], Any]:
        message = request.pack()
        self._take_in()
        self._owes, self._idle = True, False
        self._send(message)
        return self._result

    def _take_in(self) -> None:
        """Receive a reply that nobody waited for, because of a fault elsewhere: as long as the process is sending
        it, it receives nothing, and both would send for ever."""
        with contextlib.suppress(WorkerLost):  # which the result of the next call reports
            if self._owes:
                self._receive()

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # it is gone, which the result of the call reports
            self.connection.send_bytes(message)

    def _result(self) -> Any:
        reply = self._receive()
        self._idle = True
        return unpack_reply(reply)

    def _receive(self) -> bytes:
        try:
            reply = self.connection.recv_bytes()
        except (EOFError, OSError) as fault:
            code = self._process.wait()
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerLost(f"process {self.pid} ended with {ended}") from fault
        self._owes = False
        return reply

    def borrow(self, cores: Sequence[int]) -> None:
        """Use these cores beside its own; an empty list gives back what was borrowed."""
        allowed = [*self.cores, *cores]
        if allowed != self._allowed:
            pin_process(self.pid, allowed)
            self._allowed = allowed

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def join(self) -> None:
        self.connection.poll(None)

    def close(self) -> None:
        """A process that is idle ends by itself when the connection closes; one that is busy is ended."""
        self.connection.close()
        try:
            self._process.wait(SECONDS_TO_END if self._idle else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Processes(Place[ProcessWorker[Any]]):
    """Room for a process on each of ``shares`` of the cores, for work with so many ``threads``.

    While others are waited for, a process that has answered lends its cores to those with more threads than cores.
    Where cores are ``counted``, each uses as many as its share has, whichever are free, and nothing is lent.
    """

    def __init__(
        self,
        shares: Sequence[Sequence[int]],
        threads: Sequence[int],
        interruptible: bool = False,
        counted: bool = False,
    ) -> None:
        super().__init__(threads)
        self._shares, self._interruptible, self._counted = shares, interruptible, counted

    def _make_worker(self, slot: int, building: Request) -> ProcessWorker[Any]:
        return ProcessWorker(building, self._shares[slot], self._interruptible, self._counted)

    def wait(self, slots: Sequence[int]) -> Sequence[int]:
        self._lend(slots)
        ready = wait([self._workers[slot].connection for slot in slots])
        answered = [slot for slot in slots if self._workers[slot].connection in ready]
        for slot in answered:
            self._workers[slot].borrow([])
        return answered

    def _lend(self, busy: Sequence[int]) -> None:
        """The cores of all that are not busy, to those of the busy that have threads for them."""
        free = [core for slot, share in enumerate(self._shares) if slot not in busy for core in share]
        for slot in busy:
            if self.threads[slot] > len(self._shares[slot]):
                self._workers[slot].borrow(free)


# --- in the process ----------------------------------------------------------------------------------------


def serve_object(descriptor: int, parent: int, interruptible: bool) -> None:
    """Build what the first message describes, then answer calls of it until the other end is closed."""
    for number in FOR_THE_PARENT:
        signal.signal(number, signal.SIG_IGN)
    if interruptible:
        # Also where a shell that runs the parent in the background ignores SIGINT, which would be inherited.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_THE_PARENT)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    connection = Connection(descriptor)
    code = 0
    try:
        with contextlib.suppress(EOFError, OSError):
            held = HeldObject(connection.recv_bytes())
            while True:
                connection.send_bytes(held.answer(connection.recv_bytes()))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    os._exit(code)  # without waiting for threads of an environment's own


def end_with(parent: int) -> None:
    """End this process soon after its parent, however the parent ended and whatever is being done here."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
