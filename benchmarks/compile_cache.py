"""What starting costs: seconds of CPU of --help, and of a run of a second without, with an empty and with a full
cache of compiled kernels.

python benchmarks/compile_cache.py
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ucb_moppo.compile_cache import SETTING

TINY = (
    "train Swimmer-v2 --layout static --horizon 20 --policies 2 --candidates 8 --active 2 --samples 40 "
    "--minibatch 20 --epochs 2 --probes 2 --episodes 1 --held-out 0 --stage-iterations 2 --steps 800 --quiet"
)


def measure(words: str, cache: str) -> tuple[float, float]:
    """Seconds of CPU and of wall time of one command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    settings = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")} | {SETTING: cache}
    command = [sys.executable, "-m", "ucb_moppo", *words.split()]
    subprocess.run(command, env=settings, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kernels = str(Path(folder) / "kernels")
        measure("--help", "off")  # Python compiles what it has not compiled yet
        cases = {
            "--help": ("--help", "off"),
            "train --help": ("train --help", "off"),
            "a run, nothing kept": (f"{TINY} --out {folder}/off", "off"),
            "a run, nothing kept yet": (f"{TINY} --out {folder}/cold", kernels),
            "the same run again": (f"{TINY} --out {folder}/warm", kernels),
        }
        for name, (words, cache) in cases.items():
            cpu, wall = measure(words, cache)
            print(f"{name:<24} {cpu:6.2f} s of CPU, {wall:6.2f} s")


if __name__ == "__main__":
    main()
