"""TensorBoard and Weights & Biases beside a real, tiny training run."""

from __future__ import annotations

import importlib.util
import json

import pytest

from ucb_moppo.cli import main
from ucb_moppo.errors import ConfigError
from ucb_moppo.tracking import Together, add_trackers

TINY = ["Swimmer-v2", "--policies", "2", "--active", "2", "--samples", "20", "--steps", "80", "--horizon", "10"]
TINY += ["--probes", "2", "--epochs", "1", "--stage-iterations", "1", "--warmup", "1", "--quiet"]


def test_trackers_write_what_the_metrics_say(tmp_path, monkeypatch):
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="TensorBoard is not installed: pip install 'ucb-moppo[tensorboard]'",
    )
    flags = ["--tensorboard"]
    if importlib.util.find_spec("wandb"):
        monkeypatch.delenv("WANDB_MODE", raising=False)
        monkeypatch.setenv("WANDB_SILENT", "true")
        flags.append("--wandb")
    main(["train", *TINY, *flags, "--out", str(tmp_path / "run")])
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    found = events.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    hypervolumes = [(event.step, event.value) for event in found.Scalars("front/hypervolume")]
    assert hypervolumes == [(line["training_steps"], pytest.approx(line["hypervolume"])) for line in lines]
    for line in lines:
        assert set(line["stage_seconds"]) == {"selecting", "training", "evaluating"}
    if "--wandb" in flags:
        assert list((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))


def test_what_is_not_installed_is_found_before_training(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("tensorboard", "wandb"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"ucb-moppo\[tensorboard\]"):
        add_trackers(object(), tensorboard=True, wandb=False)
    with pytest.raises(ConfigError, match=r"ucb-moppo\[wandb\]"):
        add_trackers(object(), tensorboard=False, wandb=True)


def test_everyone_is_told():
    told = []

    class Listener:
        def __getattr__(self, name):
            return lambda *args: told.append((name, args))

    together = Together([Listener(), Listener()])
    together.start("plan", "path")
    together.iteration(3)
    together.stage("record")
    together.stop()
    expected = [("start", ("plan", "path")), ("iteration", (3,)), ("stage", ("record",)), ("stop", ())]
    assert told == [one for one in expected for _ in range(2)]
