"""Which cores a process may use, and how many threads its libraries start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LIMIT = "UCB_MOPPO_CORES"
"""Environment variable with the number of cores to use, where it is not known which of them are free."""


def available_cores() -> list[int]:
    """Cores this process may use, which a container or a job scheduler may have restricted."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
    else:
        cores = list(range(os.cpu_count() or 1))
    return cores[: int(os.environ.get(LIMIT) or len(cores))]


def share_cores(cores: Sequence[int], index: int, num_shards: int) -> list[int]:
    """The cores of one shard: consecutive and of its own where there are enough, else one that it shares."""
    if num_shards > len(cores):
        return [cores[index % len(cores)]]
    return list(cores[index * len(cores) // num_shards : (index + 1) * len(cores) // num_shards])


def thread_settings(num_threads: int) -> dict[str, str]:
    """Environment variables under which XLA (NPROC) and BLAS start no more threads than this."""
    names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(num_threads))


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Pin this thread for a moment: what it starts meanwhile inherits the cores before it loads any library.

    Not where cores are only counted: others may have been given the same ones.
    """
    if not hasattr(os, "sched_setaffinity") or LIMIT in os.environ:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
