"""A cache of compiled kernels for all processes of a test run, and how to do without it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ucb_moppo.compile_cache import SETTING

CACHE = "JAX_COMPILATION_CACHE_DIR"


@contextmanager
def compiling_anew() -> Iterator[None]:
    """Let processes that are started here compile for themselves: where equal bits in another one are the point."""
    place, own = os.environ.pop(CACHE), os.environ.get(SETTING)
    os.environ[SETTING] = "off"
    try:
        yield
    finally:
        os.environ[CACHE] = place
        if own is None:
            del os.environ[SETTING]
        else:
            os.environ[SETTING] = own
