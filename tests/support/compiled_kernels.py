"""A cache of compiled kernels for all processes of a test run, and how to do without it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

CACHE = "JAX_COMPILATION_CACHE_DIR"


@contextmanager
def compiling_anew() -> Iterator[None]:
    """Let processes that are started here compile for themselves: where equal bits in another one are the point."""
    place = os.environ.pop(CACHE)
    try:
        yield
    finally:
        os.environ[CACHE] = place
