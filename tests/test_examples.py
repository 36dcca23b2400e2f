"""The examples, run as they stand with settings of a second."""

from __future__ import annotations

import json
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from tiny_runs import TINY

import ucb_moppo

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL: dict[str, Any] = TINY | {"executor": "local"}


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("optuna", reason="pip install 'ucb-moppo[tune]'")
    monkeypatch.syspath_prepend(EXAMPLES)
    import tune_with_optuna

    return tune_with_optuna


def test_tuning_prunes_a_trial_that_can_be_continued_and_finds_the_best(tmp_path: Path, tuning: ModuleType) -> None:
    from optuna.pruners import BasePruner
    from optuna.trial import TrialState

    class SecondAfterStageTwo(BasePruner):
        def prune(self, study: Any, trial: Any) -> bool:
            return bool(trial.number == 1 and trial.last_step == 2)

    study = tuning.tune("Swimmer-v2", 3, tmp_path, SecondAfterStageTwo(), **SMALL)
    first, pruned, third = study.trials
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.COMPLETE]
    for trial in (first, third):
        run = ucb_moppo.Run(trial.user_attrs["run"])
        assert trial.value == run.summary["hypervolume"]
        assert run.config["ppo"]["learning_rate"] == trial.params["learning_rate"]
        assert run.network.hidden_layers == trial.params["layers"]
        reported = {line["stage"]: line["hypervolume"] for line in run.metrics()}
        assert trial.intermediate_values == reported
    assert study.best_value == max(first.value, third.value)
    assert sorted(pruned.intermediate_values) == [0, 1, 2]
    path = pruned.user_attrs["run"]
    assert [line["stage"] for line in ucb_moppo.Run(path).metrics()] == [0, 1, 2]
    assert ucb_moppo.resume(path, quiet=True).summary["finished"] is True


@pytest.fixture
def river(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of the example's environment, which nobody has registered before and nobody finds afterwards."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield "RiverCrossing-v0"
    gymnasium.registry.pop("RiverCrossing-v0", None)
    sys.modules.pop("own_environment", None)


def test_an_environment_of_ones_own_trains_and_steers(
    river: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train, named = ucb_moppo.train, []

    def train_small(problem: str, **given: Any) -> ucb_moppo.Run:
        named.append(problem)
        return train(problem, **given | SMALL | {"quiet": True})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ucb_moppo, "train", train_small)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*Overriding environment")
        runpy.run_path(str(EXAMPLES / "own_environment.py"), run_name="__main__")
    assert named == [f"own_environment:{river}"]
    (found,) = (tmp_path / "runs").iterdir()
    run = ucb_moppo.load(found)
    assert run.summary["finished"] is True
    assert run.spec.objectives == ("speed", "staying put")
    *points, steering = capsys.readouterr().out.splitlines()
    assert len(points) == len(run.front().returns)
    assert all(": speed " in point and ", staying put -" in point for point in points)
    assert steering.startswith("in the middle of the river it steers [")


def test_the_boat_is_carried_by_what_it_does_not_steer_against(river: str) -> None:
    env = gymnasium.make(f"own_environment:{river}").unwrapped
    env.reset(seed=0)
    env.position = np.array([0.5, 0.0])  # the current: 0.08 · 4 · 0.5 · 0.5 = 0.08
    _, reward, across, *_ = env.step(np.array([1.0]))  # upstream: 0.1 against it
    np.testing.assert_allclose(reward, [-0.1, -0.02])
    np.testing.assert_allclose(env.position, [0.5, -0.02])
    assert not across
    env.position = np.array([0.95, 0.0])  # the current: 0.08 · 4 · 0.95 · 0.05 = 0.0152
    _, reward, across, *_ = env.step(np.array([-1.0]))  # straight across
    np.testing.assert_allclose(reward, [1.0, -0.0152])
    assert across


def test_the_notebook_trains_shows_and_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(EXAMPLES / "front.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # what it shows is for the reader to make
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[0].source.startswith("settings = ")
    code[0].source = f"settings = {{'problem': 'Swimmer-v2'}} | {SMALL!r}"
    # The kernel is a process of its own, which finds the package where this one does.
    monkeypatch.setenv("PYTHONPATH", str(Path(ucb_moppo.__file__).parents[1]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [{kind for output in cell.outputs for kind in output.get("data", {})} for cell in code]
    pages = ["".join(o.get("data", {}).get("text/html", "") for o in cell.outputs) for cell in code]
    assert '<progress value="10" max="10"' in pages[1]  # one output, brought up to date to the last iteration
    assert len(code[1].outputs) == 1
    assert "<caption" in pages[2]
    assert "image/png" in shown[3]
    assert len(code[3].outputs) == 1  # once, not twice
    assert "Policy" in pages[7]
    run = ucb_moppo.Run(tmp_path / "runs" / "Swimmer-v2-ucb-seed0")
    assert run.summary["finished"] is True
    assert "then: Iteration(iteration=1)" in code[8].outputs[-1]["text"]


def test_the_notebook_is_small() -> None:
    path = EXAMPLES / "front.ipynb"
    assert path.stat().st_size < 20_000
    assert json.loads(path.read_text(encoding="utf-8"))["nbformat"] == 4
