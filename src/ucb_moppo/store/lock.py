"""One writer per run directory. The kernel releases the lock when its process ends, however it ends."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ucb_moppo.errors import RunLockedError, UnsafeFileError
from ucb_moppo.store.guarded import locked_directories, meaning, open_folder, sync_directory, writing

LOCK = ".lock"
_held: set[int] = set()
"""Descriptors of the locks that this process holds."""


def _let_go() -> None:
    """In a child that was forked: it holds no lock, or it would keep that of a parent that is gone."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()
    locked_directories.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the lock of a run directory, which is made if need be; fails at once if another process holds it.

    Both the directory and a file in it are locked: the file says who holds the lock, and may be deleted by somebody
    who takes it for debris.
    """
    made = [path for path in (run, *run.parents) if not path.exists()]
    with writing(run):
        run.mkdir(parents=True, exist_ok=True)
        for path in made:
            sync_directory(path.parent)
    descriptors: list[int] = []
    try:
        with writing(run / LOCK):
            descriptors.append(os.open(run, os.O_RDONLY | os.O_DIRECTORY))
            _held.update(descriptors)
            with open_folder(run) as folder:
                descriptors.append(folder.open(LOCK, os.O_RDWR | os.O_CREAT))
            _held.update(descriptors)
            _check_own(descriptors[1], run)
            _acquire(descriptors[0], descriptors[1], run)
        with suppress(OSError):  # the number is only for a message; a full disk has no room for it
            os.ftruncate(descriptors[1], 0)
            os.pwrite(descriptors[1], f"{os.getpid()}\n".encode(), 0)
        with meaning(run, descriptors[0]):
            yield
    finally:
        with suppress(OSError):
            if made and os.listdir(descriptors[0]) == [LOCK]:  # refused before anything was written
                os.unlink(LOCK, dir_fd=descriptors[0])
                for path in made:
                    path.rmdir()
        for descriptor in descriptors:
            _held.discard(descriptor)
            os.close(descriptor)


def _check_own(descriptor: int, run: Path) -> None:
    """Refuse a lock file that is another file too, which writing into it would change."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise UnsafeFileError(f"{run / LOCK} is not a file of its own: delete it, and try again")


def _acquire(directory: int, file: int, run: Path) -> None:
    """Lock both, or say who has done so."""
    import fcntl  # not on every system that reads runs

    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system that locks files alone
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
        raise RunLockedError(f"{run} is being written by process {holder}; wait for it, or stop it first") from None
