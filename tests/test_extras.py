"""What needs an optional install says so in one line, and the line installs it."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ucb_moppo.envs import make_spec
from ucb_moppo.errors import ConfigError, needing
from ucb_moppo.registry import EXECUTORS, METHODS

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXAMPLES = Path(__file__).parents[1] / "examples"
EXTRAS = PROJECT["optional-dependencies"]


def use_tensorboard() -> None:
    from ucb_moppo.cli.tracking import TensorBoard

    TensorBoard()


def use_wandb() -> None:
    from ucb_moppo.cli.tracking import WeightsAndBiases

    WeightsAndBiases()


def use_video() -> None:
    import numpy as np

    from ucb_moppo.viewer.video import Film

    Film(Path("never.mp4"), 30).add(np.zeros((2, 2, 3), np.uint8))


def use_onnx() -> None:
    from ucb_moppo.store.export import make_onnx

    make_onnx(SimpleNamespace(spec=None))  # type: ignore[arg-type]


def use_viewer() -> None:
    from ucb_moppo.viewer.serve import check_installed

    check_installed()


USES: list[tuple[str, str, str, Callable[[], Any]]] = [
    ("tensorboard", "tensorboard", "--tensorboard needs tensorboard", use_tensorboard),
    ("wandb", "wandb", "--wandb needs wandb", use_wandb),
    ("viewer", "imageio_ffmpeg", "a video needs imageio_ffmpeg", use_video),
    ("onnx", "onnx", "export as ONNX needs onnx", use_onnx),
    ("ray", "ray", "--executor ray needs ray", lambda: EXECUTORS.find("ray").for_cells(1, 1, None)),
    ("peers", "morl_baselines", "method pgmorl needs morl_baselines", lambda: METHODS.find("pgmorl")),
    ("peers", "morl_baselines", "method gpils needs morl_baselines", lambda: METHODS.find("gpils")),
]


@pytest.mark.parametrize(("extra", "module", "what", "use"), USES, ids=lambda each: str(each)[:20])
def test_what_is_missing_is_said_with_the_line_that_installs_it(
    extra: str, module: str, what: str, use: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    for ours in ("ucb_moppo.runtime.cluster", "ucb_moppo.peers.morl_baselines"):
        monkeypatch.delitem(sys.modules, ours, raising=False)
    with pytest.raises(ConfigError) as fault:
        use()
    assert what in str(fault.value)
    assert str(fault.value).endswith(f", which is not installed: pip install 'ucb-moppo[{extra}]'")
    assert "\n" not in str(fault.value)
    assert extra in EXTRAS


def test_the_example_that_tunes_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "tune_with_optuna", raising=False)
    monkeypatch.syspath_prepend(EXAMPLES)
    with pytest.raises(SystemExit, match=r"needs optuna, .*: pip install 'ucb-moppo\[tune\]'$"):
        importlib.import_module("tune_with_optuna")


def test_so_does_the_one_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mobile_env", "cells")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mobile_env", None)
    monkeypatch.syspath_prepend(EXAMPLES / "wireless")
    with pytest.raises(
        ConfigError, match=r"'cells:W-v0': .* needs mobile_env.*, .*pip install 'ucb-moppo\[wireless\]'$"
    ):
        make_spec("cells:W-v0")


def test_one_that_does_not_load_is_quoted() -> None:
    with (
        pytest.raises(ConfigError, match=r"a kite needs torch, which does not load \(no libfoo\): pip install"),
        needing("a kite", "peers"),
    ):
        raise ImportError("no libfoo", name="torch")


def test_the_viewer_names_everything_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    from ucb_moppo.viewer import serve

    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as fault:
        use_viewer()
    assert str(fault.value) == (
        "the viewer needs dash, plotly, imageio-ffmpeg, which are not installed: pip install 'ucb-moppo[viewer]'"
    )


def test_of_one_thing_it_is_said_that_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from ucb_moppo.viewer import serve

    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: None if name == "dash" else name)
    with pytest.raises(ConfigError, match="the viewer needs dash, which is not installed: pip"):
        use_viewer()


def test_a_report_without_plotly_says_so_on_the_page() -> None:
    from ucb_moppo.report.interactive import MISSING

    assert "pip install 'ucb-moppo[report]'" in MISSING


def test_no_install_pins_what_a_user_may_have() -> None:
    """Exact versions stand in constraints.txt, which only we install by."""
    everything = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    assert [each for each in everything if "==" in each.partition(";")[0]] == []


def test_the_least_torch_that_is_taken_is_the_one_that_is_tested() -> None:
    """Nothing older was ever tried, and a lower end that was not tried is a guess."""
    lines = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (pinned,) = (line.partition("==")[2] for line in lines if line.startswith("torch=="))
    (asked,) = (each for each in EXTRAS["peers"] if each.startswith("torch"))
    assert asked == f"torch>={pinned.removesuffix('.0')},<3"


def test_constraints_name_a_version_of_everything_that_is_asked_for() -> None:
    lines = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    everything = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    names = {re.match(r"[\w.-]+", each)[0].lower() for each in everything}  # type: ignore[index]
    assert names - pinned == {"setuptools"}


def test_the_installed_version_is_that_of_the_project() -> None:
    assert importlib.metadata.version("ucb-moppo") == PROJECT["version"]
