"""Files: written whole or not at all, read without trusting them.

Nothing here executes what it reads. A name that leaves the directory, a link, a pipe or a file larger than its
kind ever is gets refused before a byte of it is read; whatever cannot be parsed gives an error naming the file.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, ValidationError
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ucb_moppo.errors import DamagedFileError, FormatVersionError, StorageError, UnsafeFileError

MIB = 1 << 20
MAX_JSON, MAX_TABLE, MAX_TENSORS, MAX_HEADER = 16 * MIB, 512 * MIB, 4096 * MIB, MIB
"""No file of ours comes near these sizes; a larger one is refused before memory is set aside for it."""

# Neither exists everywhere: where they do, a link that appears after the check is not followed and a pipe
# does not block.
_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""Finite: no file of ours holds NaN or an infinity."""


class Digest(msgspec.Struct, frozen=True):
    """What a manifest knows of a file."""

    bytes: Count
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)

    @classmethod
    def from_json(cls, data: Any, path: Path) -> Digest:
        """A digest out of the manifest ``path``."""
        try:
            return msgspec.convert(data, cls)
        except ValidationError as fault:
            raise DamagedFileError(
                f"{path} holds {data!r} where a size and a SHA-256 should stand: {fault}"
            ) from fault


def make_digest(data: bytes) -> Digest:
    return Digest(len(data), hashlib.sha256(data).hexdigest())


# --- writing -----------------------------------------------------------------------------------------------


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong while ``path`` is written into an error that names it and the remedy."""
    try:
        yield
    except OSError as fault:
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "check the path and its permissions"
        reason = fault.strerror or str(fault)
        raise StorageError(
            f"cannot write {path}: {reason}; {remedy}, then continue with `ucb-moppo resume`"
        ) from fault


def replace_file(path: Path, data: bytes) -> None:
    """Write aside, sync and rename, so that no reader meets half a file and no crash leaves one."""
    aside = path.with_name(f".{path.name}.tmp")
    with writing(path):
        try:
            write_synced(aside, data)
            aside.replace(path)
            sync_directory(path.parent)
        except OSError:
            with suppress(OSError):  # on a full disk the debris would be in the way of what comes next
                aside.unlink()
            raise


def write_synced(path: Path, data: bytes, mode: int = os.O_TRUNC) -> None:
    """Write ``data`` to a file of our own (``mode`` os.O_APPEND: at its end) and wait until it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | mode | _CAREFULLY, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until renames in a directory are on the disk, where the system can."""
    with suppress(PermissionError, IsADirectoryError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as fault:
            if fault.errno != errno.EINVAL:  # a file system that syncs no directories
                raise
        finally:
            os.close(descriptor)


def dump_json(data: Any) -> bytes:
    """Strict JSON, for people to read too."""
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def finite_or_none(data: Any) -> Any:
    """Plain data with None in place of NaN and infinities, which JSON has no word for."""
    if isinstance(data, Mapping):
        return {key: finite_or_none(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite_or_none(value) for value in data]
    return None if isinstance(data, float) and not np.isfinite(data) else data


def dump_tensors(tensors: Mapping[str, NDArray], header: Mapping[str, Any] | None = None) -> bytes:
    """A safetensors file, with a JSON header of ours if given."""
    metadata = None if header is None else {"ucb_moppo": json.dumps(header, allow_nan=False)}
    # asarray with an order keeps the shape of scalars, which ascontiguousarray would make vectors of.
    return save({name: np.asarray(a, order="C") for name, a in tensors.items()}, metadata)


# --- reading -----------------------------------------------------------------------------------------------


def inside(root: Path, name: str) -> Path:
    """``root / name``, refused where it would leave ``root`` by its name or through a link."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or any(c in name for c in "\\:\0"):
        raise UnsafeFileError(f"{root}: the file name {name!r} leads out of the directory")
    path = root
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise UnsafeFileError(f"{path} is a link; a run holds its files itself")
    return path


def read_bytes(root: Path, name: str, limit: int) -> bytes:
    """A regular file of at most ``limit`` bytes inside ``root``."""
    path = inside(root, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | _CAREFULLY | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedFileError(f"{path} is missing") from None
    except OSError as fault:
        raise DamagedFileError(f"{path} cannot be opened: {fault.strerror}") from fault
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFileError(f"{path} is not a regular file")
        if status.st_size > limit:
            raise UnsafeFileError(f"{path} has {status.st_size:,} bytes; such a file has at most {limit:,}")
        return file.read(limit)


def verified(data: bytes, expected: Digest, path: Path) -> bytes:
    """``data``, if it is what the manifest beside ``path`` says."""
    found = make_digest(data)
    if found.bytes != expected.bytes:
        raise DamagedFileError(f"{path} has {found.bytes:,} bytes; manifest.json says {expected.bytes:,}")
    if found.sha256 != expected.sha256:
        raise DamagedFileError(f"{path} does not match manifest.json (SHA-256 {found.sha256}); it is damaged")
    return data


def parse_json(data: bytes, path: Path) -> Any:
    """Strict JSON out of ``path``."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as fault:
        raise DamagedFileError(f"{path} cannot be read as JSON: {fault}") from fault


def parse_object(data: bytes, path: Path) -> dict[str, Any]:
    """A JSON object out of ``path``."""
    found = parse_json(data, path)
    if not isinstance(found, dict):
        raise DamagedFileError(f"{path} holds a {type(found).__name__}; it must be a JSON object")
    return found


def has_type(data: Any, kind: Any) -> bool:
    """Whether plain data is of a type: no text for a number, no true for 1, nothing outside its bounds."""
    try:
        msgspec.convert(data, kind)
    except ValidationError:
        return False
    return True


def parse_rows(data: bytes, path: Path) -> list[dict[str, str]]:
    """The rows of the CSV table ``path``, by column."""
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (csv.Error, ValueError) as fault:
        raise DamagedFileError(f"{path} cannot be read as a table: {fault}") from fault
    if any(None in row or None in row.values() for row in rows):
        raise DamagedFileError(f"{path} has rows of different lengths")
    return rows


def parse_tensors(data: bytes, path: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Our JSON header and all arrays of the safetensors file ``path``.

    The library checks every offset and shape against the bytes that are there; the length of the header is
    checked here first.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(MAX_HEADER, len(data) - 8):
        raise DamagedFileError(f"{path} is not a safetensors file: its header would have {length:,} bytes")
    metadata = parse_object(data[8 : 8 + length], path).get("__metadata__", {})
    own = metadata.get("ucb_moppo", "{}") if isinstance(metadata, dict) else None
    if not isinstance(own, str):
        raise DamagedFileError(f"{path} has a header that is not ours")
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, TypeError, ValueError, OverflowError, MemoryError) as fault:
        raise DamagedFileError(f"{path} cannot be read as a safetensors file: {fault!r}") from fault
    # In an order of their own: the library's is another in every process.
    return parse_object(own.encode(), path), dict(sorted(tensors.items()))


def check_format(found: Any, newest: int, oldest: int, path: Path, remedy: str) -> int:
    """The format version of ``path``, refused unless this version of the package reads it."""
    if not isinstance(found, int) or isinstance(found, bool):
        raise DamagedFileError(f"{path} names the format {found!r}; it must be a number")
    if found > newest:
        raise FormatVersionError(
            f"{path} has format {found}, newer than {newest}, the newest read here: upgrade ucb-moppo"
        )
    if found < oldest:
        raise FormatVersionError(f"{path} has format {found}, older than {oldest}: {remedy}")
    return found
