"""TensorBoard and Weights & Biases beside a real, tiny training run."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_runs import train_until

import ucb_moppo
from ucb_moppo.cli.main import main
from ucb_moppo.cli.tracking import ReporterGroup, WeightsAndBiases, make_reporters
from ucb_moppo.config import default_settings
from ucb_moppo.engine.learner import StageRecord
from ucb_moppo.errors import ConfigError

TINY = ["Swimmer-v2", "--policies", "2", "--active", "2", "--samples", "20", "--steps", "80", "--horizon", "10"]
TINY += ["--probes", "2", "--epochs", "1", "--stage-iterations", "1", "--warmup", "1", "--quiet"]


@pytest.fixture
def trackers(monkeypatch):
    """Both, W&B offline as by default; its files hold what it was told."""
    for module, extra in (("tensorboard", "tensorboard"), ("wandb", "wandb")):
        pytest.importorskip(module, reason=f"not installed: pip install 'ucb-moppo[{extra}]'")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_SILENT", "true")
    return ["--tensorboard", "--wandb"]


def logged_hypervolumes(run):
    """(training steps, hypervolume) in TensorBoard's event files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(run / "tensorboard"))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars("front/hypervolume")]


def told_hypervolumes(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["training_steps"], pytest.approx(line["hypervolume"])) for line in lines]


def test_trackers_write_what_the_metrics_say(tmp_path, trackers):
    run = tmp_path / "run"
    main(["train", *TINY, *trackers, "--out", str(run)])
    assert logged_hypervolumes(run) == told_hypervolumes(run)
    assert len(list((run / "wandb").glob("offline-run-*/run-*.wandb"))) == 1
    for line in (run / "metrics.jsonl").read_text().splitlines():
        assert set(json.loads(line)["stage_seconds"]) == {"selecting", "training", "evaluating"}


def test_python_tracks_what_the_command_line_does(tmp_path, trackers):
    settings = {"policies": 2, "active": 2, "samples": 20, "steps": 80, "horizon": 10, "probes": 2, "epochs": 1}
    out = tmp_path / "run"
    run = ucb_moppo.train(
        "Swimmer-v2", out=out, quiet=True, tensorboard=True, wandb=True, stage_iterations=1, **settings
    )
    assert logged_hypervolumes(run.path) == told_hypervolumes(run.path)
    assert len(list((run.path / "wandb").glob("offline-run-*"))) == 1


def test_a_resumed_run_is_tracked_from_where_it_goes_on(tmp_path, trackers):
    # Killed in iteration 3: the last checkpoint is of iteration 2, before the evaluation after the first stage.
    run = train_until(tmp_path / "run", 3)
    main(["resume", str(run), "--quiet", *trackers])
    told = told_hypervolumes(run)
    assert len(told) == 6
    assert logged_hypervolumes(run) == told[1:]
    assert len(list((run / "wandb").glob("offline-run-*/run-*.wandb"))) == 1


def test_wandb_is_told_every_number_under_its_training_step(tmp_path, monkeypatch):
    told = []

    class FakeRun:
        log = staticmethod(lambda values, step: told.append((step, values)))
        finish = staticmethod(lambda: told.append("finished"))

    def init(**options):
        told.append({name: options[name] for name in ("name", "dir", "mode")})
        return FakeRun()

    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    tracker = WeightsAndBiases()
    tracker.start(default_settings("Swimmer-v2"), None, tmp_path / "run")
    diagnostics = {"beta": 0.5, "absolute_error": [1.0, 2.0], "absolute_change": [3.0, 4.0]}
    record = StageRecord(1, 4, 480, 70, 2.5, np.zeros((1, 1, 2)), {"hypervolume": 9.0}, diagnostics=diagnostics)
    tracker.stage(record)
    tracker.stop()
    opened, (step, values), end = told
    assert opened == {"name": "run", "dir": str(tmp_path / "run"), "mode": "offline"}
    assert (step, end) == (480, "finished")
    assert values == {
        "training_steps": 480,
        "front/hypervolume": 9.0,
        "cost/seconds": 2.5,
        "cost/evaluation_steps": 70.0,
        "surrogate/beta": 0.5,
        "surrogate/absolute_error_1": 1.0,
        "surrogate/absolute_error_2": 2.0,
        "surrogate/absolute_change_1": 3.0,
        "surrogate/absolute_change_2": 4.0,
    }


def test_what_is_not_installed_is_found_before_training(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("tensorboard", "wandb"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"ucb-moppo\[tensorboard\]"):
        make_reporters(True, tensorboard=True, wandb=False)
    with pytest.raises(ConfigError, match=r"ucb-moppo\[wandb\]"):
        make_reporters(True, tensorboard=False, wandb=True)


def test_everyone_is_told():
    told = []

    class Listener:
        def __getattr__(self, name):
            return lambda *args: told.append((name, args))

    together = ReporterGroup([Listener(), Listener()])
    together.start("config", "plan", "path")
    together.iteration(3)
    together.stage("record")
    together.stop()
    expected = [("start", ("config", "plan", "path")), ("iteration", (3,)), ("stage", ("record",)), ("stop", ())]
    assert told == [one for one in expected for _ in range(2)]
