"""What an installation has and lacks, for a person who is stuck and for whoever helps them.

Every fact is found by itself: one that cannot be found says why, and the others are told all the same.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ucb_moppo.compile_cache import SETTING, cache_folder, entries, why_unusable
from ucb_moppo.cores import LIMIT, available_cores

PATIENCE = 60.0
"""Seconds after which another program is not waited for."""
REQUIREMENT = re.compile(r"([\w.-]+).*?(?:extra == [\"']([\w-]+)[\"'])?$")
FOR_DEVELOPERS = ("dev", "browser-tests", "notebook-tests", "docs")
VARIABLES = re.compile(r"(UCB_MOPPO|JAX|XLA|OMP|MKL|OPENBLAS|MUJOCO|PYOPENGL|RAY)_\w+|NPROC|PYTHONPATH|DISPLAY")
"""Environment variables that change what happens."""
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
DRAW = "import mujoco; context = mujoco.GLContext(16, 16); context.make_current(); context.free()"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def describe_installation() -> dict[str, Any]:
    """All facts, by section, as plain data."""
    sections: dict[str, Callable[[], Any]] = {
        "system": describe_system,
        "packages": describe_packages,
        "jax": describe_jax,
        "rendering (EGL)": describe_rendering,
        "browser": describe_browser,
        "ffmpeg": describe_ffmpeg,
        "free disk": describe_disk,
        "compiled kernels": describe_kernels,
        "environment": describe_environment,
    }
    return {name: without_home(attempt(find)) for name, find in sections.items()}


def attempt(find: Callable[[], Any]) -> Any:
    """What is found, or why it is not."""
    try:
        return find()
    except Exception as fault:  # whatever is broken is what the reader wants to know
        return f"cannot be found: {type(fault).__name__}: {fault}"


def without_home(fact: Any) -> Any:
    """A fact that does not tell the user's name: paths begin at ~."""
    if isinstance(fact, dict):
        return {name: without_home(value) for name, value in fact.items()}
    home = os.path.expanduser("~")
    return fact.replace(home, "~") if isinstance(fact, str) and len(home) > 1 else fact


def describe_system() -> dict[str, Any]:
    memory = attempt(lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return {
        "ucb-moppo": importlib.metadata.version("ucb-moppo"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "cores": attempt(describe_cores),
        "memory": in_bytes(memory) if isinstance(memory, int) else memory,
    }


def describe_cores() -> str:
    limit = os.environ.get(LIMIT)
    return f"{len(available_cores())} of {os.cpu_count()}" + (f" ({LIMIT}={limit})" if limit else "")


def describe_packages() -> dict[str, str]:
    """The version of every package that we ask for; of one that is missing, how to get it."""
    found: dict[str, str] = {}
    for requirement in importlib.metadata.requires("ucb-moppo") or []:
        name, extra = split_requirement(requirement)
        if extra not in FOR_DEVELOPERS:
            found.setdefault(name, describe_package(name, extra))
    return dict(sorted(found.items()))


def split_requirement(requirement: str) -> tuple[str, str]:
    """The name of a package, and the extra that asks for it, if one does."""
    match = REQUIREMENT.match(requirement)
    return (match[1], match[2] or "") if match else (requirement, "")


def describe_package(name: str, extra: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"not installed: pip install '{f'ucb-moppo[{extra}]' if extra else name}'"


def describe_jax() -> dict[str, str]:
    import jax

    return {"backend": jax.default_backend(), "devices": ", ".join(str(device) for device in jax.devices())}


def describe_rendering() -> str:
    """Whether MuJoCo can draw without a screen; tried in a process of its own, because drivers may crash."""
    environment = os.environ | {"MUJOCO_GL": "egl", "PYOPENGL_PLATFORM": "egl"}
    done = run_program([sys.executable, "-c", DRAW], environment)
    if done.returncode == 0:
        return "works"
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return f"does not work, so there are no videos (apt-get install libegl1): {last}"


def describe_browser() -> str:
    named = os.environ.get("CHROMIUM")
    program = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        return "no Chromium: only the browser tests need one (apt-get install chromium)"
    return run_program([program, "--version"]).stdout.strip() or f"{program} does not start"


def describe_ffmpeg() -> str:
    try:
        import imageio_ffmpeg
    except ImportError:
        return "not installed: pip install 'ucb-moppo[viewer]'"
    return str(imageio_ffmpeg.get_ffmpeg_version())


def describe_disk() -> dict[str, str]:
    places = {"here": Path.cwd(), "temporary files": Path(tempfile.gettempdir())}
    return {name: in_bytes(shutil.disk_usage(place).free) for name, place in places.items()}


def describe_kernels() -> str:
    """Where compiled kernels are kept, or why they are not."""
    other = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if other:
        return f"kept in {other}, as JAX_COMPILATION_CACHE_DIR says"
    folder = cache_folder()
    if folder is None:
        return f"not kept: {SETTING}={os.environ.get(SETTING, '')}, or there is no home"
    reason = why_unusable(folder.resolve())
    if reason:
        return f"not kept: {reason}"
    if not folder.exists():
        return f"will be kept in {folder}"
    sizes = [entry.stat().st_size for entry in entries(folder)]
    return f"{len(sizes)} in {folder}, {in_bytes(sum(sizes))}"


def describe_environment() -> dict[str, str]:
    """The variables that matter; what may be a secret is not shown."""
    found = {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)}
    return {name: "(not shown)" if SECRET.search(name) else value for name, value in found.items()}


def run_program(
    command: list[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Another program, which has a limited time to answer."""
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)


def in_bytes(count: float) -> str:
    """A number of bytes for the eye."""
    units = iter(("bytes", "kB", "MB", "GB"))
    unit = next(units)
    while count >= 1000 and unit != "GB":
        count, unit = count / 1000, next(units)
    return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"


def installation_lines(found: Mapping[str, Any]) -> list[str]:
    """The facts, a line each, in columns."""
    rows = []
    for section, facts in found.items():
        if isinstance(facts, Mapping):
            rows += [(section, ""), *((f"  {name}", str(value)) for name, value in facts.items())]
        else:
            rows.append((section, str(facts)))
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value}".rstrip() for name, value in rows]
