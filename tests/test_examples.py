"""The examples, run as they stand with settings of a second."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

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
