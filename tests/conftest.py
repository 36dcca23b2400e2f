"""What all tests share: a cache of compiled kernels, so that one process compiles what many run."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from compiled_kernels import CACHE, compiling_anew

MAX_MAPS = 25_000

# Before MuJoCo is imported: without a screen its other ways of rendering end the whole process.
os.environ.setdefault("MUJOCO_GL", "egl")


def pytest_configure(config: pytest.Config) -> None:
    """Give JAX an empty cache before any process imports it; workers of xdist and commands inherit it."""
    if CACHE not in os.environ:
        place = tempfile.mkdtemp(prefix="compiled-")
        # With a limit of its size JAX locks the cache, and nobody reads what another is still writing.
        os.environ |= {CACHE: place, "JAX_COMPILATION_CACHE_MAX_SIZE": str(4 << 30)}
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


@pytest.fixture(autouse=True, scope="module")
def _room_for_kernels() -> Iterator[None]:
    """Forget compiled kernels before a process has as many pieces of memory as Linux lets it have (65,530)."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_bytes().count(b"\n") > MAX_MAPS:
        sys.modules["jax"].clear_caches()


@pytest.fixture
def compiling_apart() -> Iterator[None]:
    """Processes that the test starts compile for themselves."""
    with compiling_anew():
        yield
