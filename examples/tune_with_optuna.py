"""Tune settings with Optuna: every trial is a run, and one that falls behind the others is pruned after a stage.

    pip install 'ucb-moppo[tune]'
    python examples/tune_with_optuna.py Hopper-v2 --trials 20 --steps 500000

A pruned trial has left a run with a checkpoint, as every run that is broken off does: should you change your mind,
``ucb-moppo resume runs/tuning/trial-3`` goes on with it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

try:
    import optuna
except ModuleNotFoundError:
    raise SystemExit("this example needs optuna, which is not installed: pip install 'ucb-moppo[tune]'") from None

import ucb_moppo


def suggest_settings(trial: optuna.Trial) -> dict[str, Any]:
    """What is varied, and in which range."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-3, log=True),
        "gamma": 1 - trial.suggest_float("one_minus_gamma", 1e-3, 3e-2, log=True),
        "cells": trial.suggest_categorical("cells", [32, 64, 128]),
        "layers": trial.suggest_int("layers", 1, 3),
        "activation": trial.suggest_categorical("activation", ["tanh", "elu"]),
    }


def train_trial(trial: optuna.Trial, problem: str, out: Path, settings: dict[str, Any]) -> float:
    """Train one trial and return its hypervolume, measured on episodes that nothing was chosen by."""

    def prune(stage: ucb_moppo.StageRecord) -> None:
        trial.report(stage.indicators["hypervolume"], stage.stage)
        if trial.should_prune():
            raise optuna.TrialPruned(f"after {stage.training_steps:,} steps")

    path = out / f"trial-{trial.number}"
    trial.set_user_attr("run", str(path))
    run = ucb_moppo.train(problem, out=path, quiet=True, on_stage=prune, **(settings | suggest_settings(trial)))
    return float(run.summary["hypervolume"])


def tune(
    problem: str, trials: int, out: Path, pruner: optuna.pruners.BasePruner | None = None, **settings: Any
) -> optuna.Study:
    """Train ``trials`` runs into ``out``; ``settings`` are the same for all of them."""
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=pruner or optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=3),
    )
    study.optimize(lambda trial: train_trial(trial, problem, out, settings), n_trials=trials)
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Tune settings with Optuna.")
    parser.add_argument("problem", nargs="?", default="Swimmer-v2")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--out", type=Path, default=Path("runs/tuning"))
    given = parser.parse_args()
    best = tune(given.problem, given.trials, given.out, steps=given.steps).best_trial
    print(f"trial {best.number} reached a hypervolume of {best.value:.4g} with {best.params}")
    print(f"its front: ucb-moppo show {best.user_attrs['run']}")
