"""What the last bits of a computation hang on beside the code: settings of JAX, the processor, BLAS."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import jax
from threadpoolctl import threadpool_info

VECTOR_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512", "amx", "asimd", "sve")
"""Beginnings of the processor's features that compilers make other code for."""


def describe_numerics() -> dict[str, Any]:
    """Plain data that two processes must share to compute the same bits."""
    config: Any = jax.config
    # Numpy's own, which acts; other libraries bring more of them along when they are loaded.
    numpys = [pool for pool in threadpool_info() if "numpy" in pool["filepath"]]
    return {
        "x64": bool(config.jax_enable_x64),
        "matmul_precision": str(config.jax_default_matmul_precision),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "device": jax.devices()[0].device_kind,
        "machine": platform.machine(),
        "cpu_features": cpu_features(),
        "blas": sorted({str(pool.get("architecture")) for pool in numpys}),
    }


def cpu_features() -> list[str]:
    """The vector instructions of this processor; empty where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = [line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))]
    return sorted({feature for feature in found[0] if feature.startswith(VECTOR_FEATURES)}) if found else []
