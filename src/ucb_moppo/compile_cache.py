"""Compiled kernels, kept from one run to the next in the user's cache folder by JAX's persistent cache.

What JAX finds there is loaded and executed. So the folder is used only if nobody but this user can put anything
into it; where it cannot be used, kernels are compiled as if there were none.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SETTING = "UCB_MOPPO_COMPILE_CACHE"
"""Environment variable with another folder for compiled kernels, or `off`."""
OFF = ("", "0", "off", "no", "false")
MAX_BYTES = 256 << 20
"""Kernels beyond so many bytes are removed, those first that were not used for longest. A run needs about 1 MB."""
MIN_FREE_BYTES = 64 << 20
SECONDS_TO_WRITE = 60.0
"""A damaged entry that is younger may still be being written by another process."""


def use_compile_cache() -> None:
    """Let JAX keep what it compiles in this process from now on, unless it has been told of a cache already."""
    import jax

    folder = cache_folder()
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    with suppress(OSError, RuntimeError):
        folder = make_private(folder)
        if why_unusable(folder):
            return
        tidy(folder)
        # What cannot be kept or read is compiled again, and a damaged entry is removed at the next start.
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        # A run compiles some forty kernels; even the least of them is read faster than it is made.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cache_folder() -> Path | None:
    """Where kernels for this processor are kept; None where the user wants none kept, or has no home."""
    chosen = os.environ.get(SETTING)
    if chosen is not None and chosen.strip().lower() in OFF:
        return None
    with suppress(RuntimeError):  # there is no home
        root = Path(chosen).expanduser() if chosen else user_cache() / "ucb-moppo" / "compiled"
        return root.absolute() / processor_name()
    return None


def user_cache() -> Path:
    """The folder that the system has for what programs can make again."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if chosen.is_absolute():
        return chosen
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def processor_name() -> str:
    """A name for this kind of processor: machines that share a home may not be able to run each other's code."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    kinds = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
    facts = "\n".join([platform.processor(), *sorted(kinds)])
    return f"{platform.machine()}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def make_private(folder: Path) -> Path:
    """Make a folder, and those above it, for this user alone, unless it is there; its path without links."""
    if not folder.exists():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder.resolve()


def why_unusable(folder: Path) -> str:
    """Why code is not loaded from a folder, whose path has no links in it; empty if nothing stands against it.

    One that is not there yet is judged by the nearest that it would be made in, and those above that.
    """
    if not hasattr(os, "geteuid"):
        return "this system does not say who can write to it"
    places = [place for place in (folder, *folder.parents) if os.path.lexists(place)]
    nearest = places[0]
    if not nearest.is_dir():
        return f"{nearest} is no folder"
    for place in places:
        status = place.lstat()
        # Of a folder like /tmp (sticky) others can neither rename nor remove what is ours.
        shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        kept = place != folder and status.st_mode & stat.S_ISVTX
        if status.st_uid != os.geteuid() and (place == folder or status.st_uid != 0):
            return f"{place} belongs to another user"
        if shared and not kept:
            return f"others can write to {place}: chmod go-w it"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} cannot be written to"
    if shutil.disk_usage(nearest).free < MIN_FREE_BYTES:
        return f"the disk of {nearest} is full"
    return ""


def tidy(folder: Path) -> None:
    """Remove entries that were cut short, by a crash or a full disk, and those that are too many."""
    with suppress(OSError):  # another process may be tidying too
        for entry in entries(folder):
            check_entry(entry)
        unwanted = sum(entry.stat().st_size for entry in entries(folder)) - MAX_BYTES
        for entry in sorted(entries(folder), key=last_used):
            if unwanted <= 0:
                break
            unwanted -= entry.stat().st_size
            entry.unlink()


def entries(folder: Path) -> Iterator[Path]:
    """The kernels in a folder, by the name that JAX gives them."""
    return folder.glob("*-cache")


def last_used(entry: Path) -> float:
    return max(entry.stat().st_atime, entry.stat().st_mtime)


def check_entry(entry: Path) -> None:
    """Remove an entry that is damaged. JAX never writes one again, so one that is whole is marked as read-only and
    not looked at twice."""
    status = entry.stat()
    if not status.st_mode & stat.S_IWUSR:
        return
    if is_whole(entry.read_bytes()):
        entry.chmod(stat.S_IRUSR)
    elif time.time() - status.st_mtime > SECONDS_TO_WRITE:
        entry.unlink()


def is_whole(data: bytes) -> bool:
    """Whether all bytes of an entry are there, as far as zlib's sum tells; JAX compresses with it by default."""
    if data[:1] != b"\x78":
        return bool(data)  # compressed by zstandard, where that is installed
    try:
        zlib.decompress(data)
    except zlib.error:
        return False
    return True
