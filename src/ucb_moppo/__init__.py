"""Find a Pareto set of policies for problems with several objectives.

run = ucb_moppo.train("Hopper-v2", seed=0)
policy = run.policy([0.7, 0.3])
action = policy(observation)

Training needs JAX and MuJoCo; a machine that only deploys a policy has neither: they are imported when asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ucb_moppo.engine.learner import Diverged, Iteration, Snapshot, StageRecord
from ucb_moppo.policy.policy import Policy, PolicyEpisode
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.front import Front
from ucb_moppo.store.layout import expand_home
from ucb_moppo.store.run import Run, load
from ucb_moppo.training.stepping import SteppedTrainer

if TYPE_CHECKING:
    from ucb_moppo.decide.forecast import Forecast
    from ucb_moppo.store.decision import Decision

__all__ = [
    "Decision",
    "Diverged",
    "EnvSpec",
    "Forecast",
    "Front",
    "Iteration",
    "Policy",
    "PolicyEpisode",
    "Run",
    "Snapshot",
    "StageRecord",
    "SteppedTrainer",
    "load",
    "make_trainer",
    "resume",
    "train",
]

with contextlib.suppress(ImportError):  # a machine that only deploys policies has no Gymnasium
    import ucb_moppo.envs.registration  # noqa: F401  (makes ucb_moppo/Hopper-v2 and the others known to it)


LATER = {"Decision": "ucb_moppo.store.decision", "Forecast": "ucb_moppo.decide.forecast"}
"""Where names are that are needed for type hints alone: not imported before somebody names them."""


def __getattr__(name: str) -> Any:
    """Import what is needed later."""
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LATER[name]), name)


def train(
    problem: str,
    *,
    method: str = "ucb",
    seed: int = 0,
    steps: int | None = None,
    preset: str = "tuned",
    out: str | Path | None = None,
    quiet: bool = False,
    tensorboard: bool = False,
    wandb: bool = False,
    max_seconds: float | None = None,
    on_stage: Callable[[StageRecord], object] | None = None,
    on_iteration: Callable[[int], object] | None = None,
    **settings: Any,
) -> Run:
    """Train a Pareto set of policies and return the run; ``max_seconds`` of wall time end it early, but cleanly.

    ``on_stage`` is called with the ``StageRecord`` of every evaluation, once it is on disk: before anything is
    trained, then after every stage. ``on_iteration`` is called with a whole number, how many iterations are done
    (of another's method: steps of the budget), wherever the state could be saved; where iterations are short,
    several lie between two calls. One that returns True ends the run early: a checkpoint is saved, the front is
    measured, and ``resume`` can go on from there. So it can after an exception of theirs, which is raised once a
    checkpoint is saved.

    ``tensorboard`` and ``wandb`` write the numbers of every stage there as well, into the run's directory.

    Further ``settings`` are those of the command line with underscores, e.g. ``policies=5, gamma=0.995``; for
    another's method, or your own (named as module:name), also those of its own.
    """
    from ucb_moppo.cli.tracking import make_reporters
    from ucb_moppo.config import make_settings
    from ucb_moppo.training.callbacks import Callbacks
    from ucb_moppo.training.train import train_run

    callbacks = Callbacks(on_stage, on_iteration)
    chosen = make_settings(problem, method, preset, seed=seed, steps=steps, **settings)
    path = None if out is None else expand_home(out)
    return train_run(chosen, path, make_reporters(quiet, tensorboard, wandb), max_seconds, callbacks)


def make_trainer(
    problem: str,
    *,
    method: str = "ucb",
    seed: int = 0,
    steps: int | None = None,
    preset: str = "tuned",
    **settings: Any,
) -> SteppedTrainer:
    """What ``train`` would train with, to be stepped by hand, e.g. in a notebook; nothing is written.

    Iterating over ``run()`` trains: it yields an ``Iteration`` after every part of a stage, a ``StageRecord`` after
    every evaluation and a ``Diverged`` where a policy has. Between two of them ``front()``, ``policy(preference)``
    and ``plot_front()`` show what the last evaluation found as those of a ``Run`` do, and ``get_state()`` gives
    all that another trainer's ``set_state()`` continues from. A ``with`` statement, or ``close()``, ends its
    processes; what it has found remains.
    """
    from ucb_moppo.config import make_settings
    from ucb_moppo.training.train import prepare_trainer

    return prepare_trainer(make_settings(problem, method, preset, seed=seed, steps=steps, **settings))


def resume(
    path: str | Path,
    *,
    force: bool = False,
    quiet: bool = False,
    tensorboard: bool = False,
    wandb: bool = False,
    max_seconds: float | None = None,
    executor: str | None = None,
    ray_address: str | None = None,
    on_stage: Callable[[StageRecord], object] | None = None,
    on_iteration: Callable[[int], object] | None = None,
) -> Run:
    """Continue a run from its newest good checkpoint; it ends as if it had never been interrupted.

    Refused if config, problem or library versions have changed since, unless ``force`` is set. ``max_seconds`` are
    counted from here on. ``tensorboard``, ``wandb``, ``on_stage`` and ``on_iteration`` are those of ``train``.
    """
    from ucb_moppo.cli.tracking import make_reporters
    from ucb_moppo.training.callbacks import Callbacks
    from ucb_moppo.training.resume import resume_run

    callbacks = Callbacks(on_stage, on_iteration)
    reporter = make_reporters(quiet, tensorboard, wandb)
    return resume_run(expand_home(path), reporter, force, max_seconds, executor, ray_address, callbacks)
