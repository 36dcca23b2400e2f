"""Install what is to be published into environments with nothing else in them, and use it there.

python .ci/check_package.py dist    (after python -m build)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
NEEDED = ("py.typed", "viewer/assets/", "store/exported/act.py", "store/exported/observe.py")
"""What is not a module and yet must be in the wheel."""
NEEDED_IN_SOURCES = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "constraints.txt",
    "tests/conftest.py",
    "mkdocs.yml",
    "docs/check.py",
    "results/README.md",
    "docs/images/stages.svg",
    "docs/images/two-policies.gif",
    "examples/front.ipynb",
    "benchmarks/first-results.json",
    ".github/ISSUE_TEMPLATE/bug.yml",
)
DEPLOYING = ("numpy", "safetensors", "msgspec")
"""All that a machine needs which only acts."""
TRAIN = (
    "train Swimmer-v2 --layout static --horizon 20 --policies 2 --candidates 8 --active 2 --samples 40 "
    "--minibatch 20 --epochs 2 --probes 2 --episodes 1 --held-out 0 --stage-iterations 2 --steps 800 "
    "--quiet --out run"
)
ACT = """
import sys
import numpy, ucb_moppo
action = ucb_moppo.load("policy.safetensors")(numpy.zeros(8))
assert action.shape == (2,) and abs(action).max() <= 1, action
run = ucb_moppo.load("run")
assert len(run.front().returns) > 0 and run.metrics()
run.choose().policy.export("chosen", "numpy")
assert "jax" not in sys.modules and "mujoco" not in sys.modules
sys.path.insert(0, "policy")
from act import act
numpy.testing.assert_array_equal(act(numpy.zeros(8)), action)
"""


class Environment:
    """A fresh virtual environment, in which commands run in a folder of their own."""

    def __init__(self, path: Path, work: Path) -> None:
        venv.create(path, with_pip=True)
        self._bin, self._work = path / "bin", work

    def install(self, *what: str | Path) -> None:
        """Compile nothing ahead: little of what comes along is ever imported."""
        options = ("--quiet", "--no-compile", "--disable-pip-version-check", "-c", CONSTRAINTS)
        self.run("python", "-m", "pip", "install", *options, *what)

    def run(self, program: str, *arguments: str | Path) -> str:
        """What a program of the environment prints; nothing of this checkout can be found by it."""
        settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = [str(self._bin / program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self._work, env=settings, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout


def check_contents(wheel: Path, sources: Path) -> None:
    """The files that are there for a reason are there, and tests are not where users would import them."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing = [each for each in NEEDED if not any(name.startswith(f"ucb_moppo/{each}") for name in names)]
    foreign = [name for name in names if not name.startswith(("ucb_moppo/", "ucb_moppo-"))]
    with tarfile.open(sources) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    missing += [each for each in NEEDED_IN_SOURCES if each not in inside]
    if missing or foreign:
        sys.exit(f"missing from the packages: {missing}; in the wheel but not ours: {foreign}")


def check_training(environment: Environment) -> None:
    """The command trains, shows, exports and knows itself."""
    environment.run("ucb-moppo", "--help")
    environment.run("ucb-moppo", "problems")
    environment.run("ucb-moppo", *TRAIN.split())
    environment.run("ucb-moppo", "show", "run")
    for name in ("policy.safetensors", "policy"):
        environment.run("ucb-moppo", "export", "run", "--weight", "0.5", "0.5", "--out", name)
    environment.run("python", "-c", ACT)
    found = json.loads(environment.run("ucb-moppo", "doctor", "--json"))
    print("\n".join(f"  {name} {version}" for name, version in found["system"].items()))


def check_sources(environment: Environment, sources: Path, folder: Path) -> None:
    """Unpacked, the sources have what their documents speak of."""
    with tarfile.open(sources) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    environment.run("python", root / "docs" / "check.py")


def main(argv: Sequence[str]) -> None:
    built = Path(argv[0]).resolve()
    (wheel,), (sources,) = built.glob("*.whl"), built.glob("*.tar.gz")
    check_contents(wheel, sources)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        whole = Environment(Path(folder) / "whole", work)
        whole.install(wheel)
        check_training(whole)
        built_here = Environment(Path(folder) / "built", work)
        built_here.install(sources)
        built_here.run("ucb-moppo", "show", "run")
        built_here.run("python", "-c", ACT)
        check_sources(built_here, sources, Path(folder) / "unpacked")
        small = Environment(Path(folder) / "small", work)
        small.install(*DEPLOYING)
        small.install("--no-deps", wheel)
        small.run("python", "-c", ACT)
    print(f"{wheel.name} and {sources.name} install and work, on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
