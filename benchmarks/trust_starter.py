"""Starts command lines of ours as processes that have imported everything already: imports are half of a small run.

Not called by hand: ``Starter`` runs this file. It initialises nothing of JAX's, so that a fork of it is as good as
a new interpreter; from its first line to its exit code a child is `python -m ucb_moppo` with its words.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence

MAX_WORDS = 1 << 16


class StartedProcess:
    """A process that a starter has started, in a session of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self.returncode = connection, None
        self.pid = int(self._say())

    def _say(self, timeout: float | None = None) -> str:
        self._connection.settimeout(timeout)
        said = self._connection.recv(MAX_WORDS).decode()
        if not said:
            raise SystemExit("the process that starts others is gone")
        return said

    def wait(self, timeout: float | None = None) -> int | None:
        """Its exit code; None if it has not ended in so many seconds."""
        if self.returncode is None:
            try:
                self.returncode: int | None = int(self._say(timeout))
            except (TimeoutError, BlockingIOError):
                return None
        return self.returncode


class Starter:
    """A process that starts one other after another."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            more = {"pass_fds": [theirs.fileno()], "env": os.environ | environment, "stdin": subprocess.DEVNULL}
            self._process = subprocess.Popen(command, **more)  # type: ignore[call-overload]

    def start(self, words: Sequence[str], output: int) -> StartedProcess:
        """Run `ucb-moppo` with these words, saying all it says to the descriptor ``output``."""
        self._connection.settimeout(None)
        socket.send_fds(self._connection, [json.dumps(words).encode()], [output])
        return StartedProcess(self._connection)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()


def serve(connection: socket.socket) -> list[str]:
    """Fork for every request and tell how its child ended; returns in a child, with its words."""
    while True:
        message, descriptors, *_ = socket.recv_fds(connection, MAX_WORDS, 1)
        if not message:
            os._exit(0)
        child = os.fork()
        if child == 0:
            become_another(connection, descriptors[0])
            return list(json.loads(message))
        os.close(descriptors[0])
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def become_another(connection: socket.socket, output: int) -> None:
    """A session of its own, as from a terminal: a shell in the background lets its children ignore SIGINT."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    connection.send(str(os.getpid()).encode())
    connection.close()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import ucb_moppo.cli.progress
    import ucb_moppo.cli.tracking
    import ucb_moppo.envs.native
    import ucb_moppo.peers.pdmorl.peer
    import ucb_moppo.peers.peer_learner
    import ucb_moppo.training.resume
    import ucb_moppo.training.train  # noqa: F401

    warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)  # JAX has no threads yet
    sys.argv[1:] = serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("ucb_moppo", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
