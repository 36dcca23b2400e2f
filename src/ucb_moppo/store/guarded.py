"""The one way to files in a directory that somebody else has made, or may change meanwhile.

A folder is opened part by part without following a link, and what is in it by its descriptor: one that is
exchanged for a link in between leads nowhere. Only regular files are read, up to a size that is known beforehand;
what is written is a new file, or one that has no other name. The path to the directory itself is the user's: links
in it are followed, by whoever keeps the directory open or its path resolved, once.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ucb_moppo.errors import DamagedFileError, StorageError, UcbMoppoError, UnsafeFileError

# Neither exists everywhere: where they do, a link that appears after the check is not followed and a pipe
# does not block.
_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_BY_DESCRIPTOR = {os.open, os.stat, os.unlink, os.mkdir, os.rename} <= os.supports_dir_fd

locked_directories: dict[str, int] = {}
"""Descriptors of the directories that this process has locked, by their absolute path."""
_turn = threading.RLock()
"""Held while one of them is looked up or forgotten: nobody takes a descriptor that another thread is closing."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_turn.release)


# --- folders -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """A folder that is open. Names are looked up in it, wherever its path leads by now."""

    path: Path
    descriptor: int | None
    """None where the system does not look names up by one."""

    def _place(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def status(self, name: str) -> os.stat_result | None:
        """What is under a name, a link itself and not what it points to; None if nothing is."""
        try:
            return os.stat(self._place(name), dir_fd=self.descriptor, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, name: str, flags: int) -> int:
        """Open a regular file, or one that is made; what is anything else is refused before and after."""
        self._check_regular(name, self.status(name))
        descriptor = os.open(self._place(name), flags | _CAREFULLY, 0o666, dir_fd=self.descriptor)
        try:
            self._check_regular(name, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_regular(self, name: str, status: os.stat_result | None) -> None:
        if status is not None and not stat.S_ISREG(status.st_mode):
            what = "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
            raise UnsafeFileError(f"{self.path / name} is {what}; files are expected to be here themselves")

    @contextmanager
    def folder(self, name: str) -> Iterator[Folder]:
        """Open a folder in this one; a link to one is refused."""
        path, status = self.path / name, self.status(name)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            what = "a link" if stat.S_ISLNK(status.st_mode) else "not a folder"
            raise UnsafeFileError(f"{path} is {what}; files are expected to be here themselves")
        if self.descriptor is None:
            yield Folder(path, None)
            return
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.descriptor)
        try:
            yield Folder(path, descriptor)
        finally:
            os.close(descriptor)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path if self.descriptor is None else self.descriptor))

    def make_folder(self, name: str) -> None:
        """Make a folder, unless it is there."""
        if self.status(name) is None:
            os.mkdir(self._place(name), dir_fd=self.descriptor)

    def write_new(self, name: str, data: bytes) -> None:
        """Write a file of our own, in the place of whatever has its name, and wait until it is on the disk."""
        self.remove(name)
        _write(self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), data)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._place(old), self._place(new), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, a link or a folder with all that is in it, if there is one."""
        status = self.status(name)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(self._place(name), dir_fd=self.descriptor)
        else:
            os.unlink(self._place(name), dir_fd=self.descriptor)

    def sync(self) -> None:
        """Wait until names in the folder are on the disk, where the system can."""
        if self.descriptor is not None:
            _sync_directory(self.descriptor)


@contextmanager
def open_folder(root: Path, name: str = "") -> Iterator[Folder]:
    """Open the folder ``name`` inside the directory ``root``, or that itself."""
    with _open_root(root) as folder:
        if not name:
            yield folder
            return
        with _descend(folder, check_name(root, name)) as inner:
            yield inner


@contextmanager
def _descend(folder: Folder, parts: tuple[str, ...]) -> Iterator[Folder]:
    if not parts:
        yield folder
        return
    with folder.folder(parts[0]) as inner, _descend(inner, parts[1:]) as last:
        yield last


@contextmanager
def _open_root(root: Path) -> Iterator[Folder]:
    """Open a directory that the user has named; of one that this process has locked, what it has locked."""
    if not _BY_DESCRIPTOR:
        yield Folder(root, None)
        return
    own = _duplicate_own(root)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY) if own is None else own
    try:
        yield Folder(root, descriptor)
    finally:
        os.close(descriptor)


def _duplicate_own(root: Path) -> int | None:
    """A descriptor of a directory that this process has locked; None of any other."""
    with _turn:
        own = locked_directories.get(os.path.abspath(root))
        if own is None:
            return None
        check_still_there(root, own)
        return os.dup(own)


def check_still_there(root: Path, own: int) -> None:
    """Refuse to write on where the directory that was locked is gone, or another is in its place."""
    try:
        same = os.path.samestat(os.stat(root), os.fstat(own))
    except FileNotFoundError:
        same = False
    if not same:
        raise StorageError(
            f"{root} was deleted or moved while this process was writing it: nothing more is written; put it back "
            f"and continue with `ucb-moppo resume`, or train again"
        )


@contextmanager
def meaning(root: Path, descriptor: int) -> Iterator[None]:
    """Let ``root`` mean the directory that is open as ``descriptor``, whatever takes its place."""
    name = os.path.abspath(root)
    locked_directories[name] = descriptor
    try:
        yield
    finally:
        with _turn:
            locked_directories.pop(name, None)


def check_name(root: Path, name: str) -> tuple[str, ...]:
    """The parts of a file's name inside ``root``; one that leads out of it is refused."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or any(c in name for c in "\\:\0"):
        raise UnsafeFileError(f"{root}: the file name {name!r} leads out of the directory")
    return parts


@contextmanager
def _open_parent(root: Path, name: str) -> Iterator[tuple[Folder, str]]:
    """Open the folder that a file is in; its own name there."""
    *folders, last = check_name(root, name)
    with open_folder(root, "/".join(folders)) as folder:
        yield folder, last


# --- reading -----------------------------------------------------------------------------------------------


@contextmanager
def open_file(root: Path, name: str, limit: int) -> Iterator[BinaryIO]:
    """Open a regular file of at most ``limit`` bytes inside ``root``, to be read."""
    path = root / name
    try:
        with _open_parent(root, name) as (folder, last):
            descriptor = folder.open(last, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedFileError(f"{path} is missing") from None
    except StorageError:
        raise
    except OSError as fault:
        raise DamagedFileError(f"{path} cannot be opened: {fault.strerror}") from fault
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise UnsafeFileError(f"{path} has {size:,} bytes; such a file has at most {limit:,}")
        yield file


def read_bytes(root: Path, name: str, limit: int, at_most: int | None = None) -> bytes:
    """A regular file of at most ``limit`` bytes inside ``root``, or the first ``at_most`` bytes of it."""
    with open_file(root, name, limit) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            # As much as there is, not as much as there could be: that would be set aside at once.
            return file.read(size if at_most is None else min(size, at_most))
        except OSError as fault:
            raise DamagedFileError(f"{root / name} cannot be read: {fault.strerror}") from fault


def file_size(root: Path, name: str) -> int | None:
    """Size of a regular file inside ``root``; None if there is nothing under that name."""
    try:
        with _open_parent(root, name) as (folder, last):
            status = folder.status(last)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if status is None else status.st_size


def list_folder(root: Path, name: str) -> list[str]:
    """Names in a folder inside ``root``; none if it is not there."""
    try:
        with open_folder(root, name) as folder:
            return folder.names()
    except FileNotFoundError:
        return []


# --- writing -----------------------------------------------------------------------------------------------


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong while ``path`` is written into an error that names it and the remedy."""
    try:
        yield
    except StorageError:
        raise
    except OSError as fault:
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "check the path and its permissions"
        go_on = ", then continue with `ucb-moppo resume`" if can_be_resumed(path) else ""
        raise StorageError(f"cannot write {path}: {fault.strerror or fault}; {remedy}{go_on}") from fault


def can_be_resumed(path: Path) -> bool:
    """Whether ``path`` is in a run that this process is writing, and that holds a checkpoint to continue from."""
    from ucb_moppo.store.checkpoint import list_checkpoints  # which imports this module

    here = Path(os.path.abspath(path))
    runs = [place for place in (here, *here.parents) if str(place) in locked_directories]
    with suppress(OSError, UcbMoppoError):  # what has gone wrong may be in the way of looking, too
        return any(list_checkpoints(run) for run in runs)
    return False


def replace_file(root: Path, name: str, data: bytes) -> None:
    """Write aside, sync and rename, so that no reader meets half a file and no crash leaves one."""
    with writing(root / name), _open_parent(root, name) as (folder, last):
        _replace(folder, last, data)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that the user has named, whole or not at all."""
    with writing(path), open_folder(path.parent) as folder:
        _replace(folder, path.name, data)


def write_below(root: Path, name: str, data: bytes) -> None:
    """Write a file into the directory ``root``, which is made if need be, as are folders on the way to the file."""
    *folders, _ = check_name(root, name)
    with writing(root / name):
        root.mkdir(parents=True, exist_ok=True)
        for depth, last in enumerate(folders):
            with open_folder(root, "/".join(folders[:depth])) as folder:
                folder.make_folder(last)
    replace_file(root, name, data)


def open_log(path: Path) -> BinaryIO:
    """Open a file that the user has named to write behind what is in it, which must be of our own."""
    with writing(path), open_folder(path.parent) as folder:
        return os.fdopen(_open_to_append(folder, path.name), "ab")


def _replace(folder: Folder, name: str, data: bytes) -> None:
    aside = f".{name}.tmp"
    try:
        folder.write_new(aside, data)
        folder.rename(aside, name)
        folder.sync()
    except OSError:
        with suppress(OSError):  # on a full disk the debris would be in the way of what comes next
            folder.remove(aside)
        raise


def append_file(root: Path, name: str, data: bytes, length: int) -> None:
    """Write ``data`` behind the first ``length`` bytes of a file of our own, and wait until it is on the disk."""
    with writing(root / name), _open_parent(root, name) as (folder, last):
        descriptor = _open_to_append(folder, last)
        try:
            size = os.fstat(descriptor).st_size
            if size < length:
                raise DamagedFileError(f"{root / name} has lost bytes: {size:,} of {length:,} are there")
            if size > length:  # half a line, of a process that was killed
                os.ftruncate(descriptor, length)
        except BaseException:
            os.close(descriptor)
            raise
        _write(descriptor, data)


def _open_to_append(folder: Folder, name: str) -> int:
    """Open a file to write behind what is in it; one that has another name too would change there as well."""
    descriptor = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise UnsafeFileError(f"{folder.path / name} has another name too: make a copy of it in its place")
    return descriptor


def _write(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, wait until it is on the disk, and close."""
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until renames in a directory are on the disk, where the system can."""
    with suppress(PermissionError, IsADirectoryError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _sync_directory(descriptor)
        finally:
            os.close(descriptor)


def _sync_directory(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as fault:
        if fault.errno != errno.EINVAL:  # a file system that syncs no directories
            raise
