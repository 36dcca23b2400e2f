"""What is in files: digests, JSON, tables and arrays, made and parsed without trusting them.

Nothing here executes what it reads; whatever cannot be parsed gives an error naming the file. The files are opened
by ``store/guarded.py``.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, ValidationError
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ucb_moppo.errors import DamagedFileError, FormatVersionError

MIB = 1 << 20
MAX_JSON, MAX_TABLE, MAX_TENSORS, MAX_HEADER = 16 * MIB, 512 * MIB, 4096 * MIB, MIB
"""No file of ours comes near these sizes; a larger one is refused before memory is set aside for it."""
MAX_LINE = 1 << 16
"""Characters of a row of a table."""

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


def parse_columns(data: bytes, path: Path) -> dict[str, NDArray]:
    """The columns of the table of numbers ``path``; true is 1, false 0. Takes a few times the file's size."""
    values = array("d")
    try:
        rows = _read_rows(data)
        header = next(rows, [])
        for row in rows:
            if len(row) != len(header):
                raise ValueError("its rows have different lengths")
            values.extend(map(_to_number, row))
    except (csv.Error, ValueError) as fault:
        raise DamagedFileError(f"{path} cannot be read as a table: {fault}") from fault
    table = np.frombuffer(values, float).reshape(-1, max(1, len(header)))
    return dict(zip(header, table.T, strict=False))


def _read_rows(data: bytes) -> Iterator[list[str]]:
    """Rows that are not empty, one at a time."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    return filter(None, csv.reader(map(_check_line, lines), strict=True))


def _check_line(line: str) -> str:
    if len(line) > MAX_LINE:
        raise ValueError(f"a line has {len(line):,} characters; a row has at most {MAX_LINE:,}")
    return line


def _to_number(cell: str) -> float:
    return {"true": 1.0, "false": 0.0}[cell] if cell in ("true", "false") else float(cell)


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
