"""One writer per run directory. The kernel releases the lock when its process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ucb_moppo.errors import RunLockedError
from ucb_moppo.store.storage import inside, sync_directory, writing

LOCK = ".lock"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the lock of a run directory, which is made if need be; fails at once if another process holds it."""
    import fcntl  # not on every system that reads runs

    made = [path for path in (run, *run.parents) if not path.exists()]
    with writing(run):
        run.mkdir(parents=True, exist_ok=True)
        for path in made:
            sync_directory(path.parent)
        descriptor = os.open(inside(run, LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        with writing(run / LOCK):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
                raise RunLockedError(
                    f"{run} is being written by process {holder}; wait for it, or stop it first"
                ) from None
        with suppress(OSError):  # the number is only for the message above; a full disk has no room for it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        with suppress(OSError):
            if made and os.listdir(run) == [LOCK]:  # refused before anything was written: leave nothing behind
                inside(run, LOCK).unlink()
                for path in made:
                    path.rmdir()
        os.close(descriptor)
