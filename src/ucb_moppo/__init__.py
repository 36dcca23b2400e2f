"""Find a Pareto set of policies for problems with several objectives.

run = ucb_moppo.train("Hopper-v2", seed=0)
policy = run.policy([0.7, 0.3])
action = policy(observation)

Training needs JAX and MuJoCo; a machine that only deploys a policy has neither: they are imported when asked for.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from ucb_moppo.policy.policy import Policy
from ucb_moppo.store.run import Front, Run, load

__all__ = ["Front", "Policy", "Run", "load", "resume", "train"]

with contextlib.suppress(ImportError):  # a machine that only deploys policies has no Gymnasium
    import ucb_moppo.envs.registration  # noqa: F401  (makes ucb_moppo/Hopper-v2 and the others known to it)


def train(
    problem: str,
    *,
    method: str = "ucb",
    seed: int = 0,
    steps: int | None = None,
    preset: str = "tuned",
    out: str | Path | None = None,
    quiet: bool = False,
    max_seconds: float | None = None,
    **settings: Any,
) -> Run:
    """Train a Pareto set of policies and return the run; ``max_seconds`` of wall time end it early, but cleanly.

    Further ``settings`` are those of the command line with underscores, e.g. ``policies=5, gamma=0.995``; for
    another's method, or your own (named as module:name), also those of its own.
    """
    from ucb_moppo.cli.progress import make_reporter
    from ucb_moppo.config import make_settings
    from ucb_moppo.training.train import train_run

    chosen = make_settings(problem, method, preset, seed=seed, steps=steps, **settings)
    return train_run(chosen, out, make_reporter(quiet), max_seconds)


def resume(
    path: str | Path,
    *,
    force: bool = False,
    quiet: bool = False,
    max_seconds: float | None = None,
    executor: str | None = None,
    ray_address: str | None = None,
) -> Run:
    """Continue a run from its newest good checkpoint; it ends as if it had never been interrupted.

    Refused if config, problem or library versions have changed since, unless ``force`` is set. ``max_seconds`` are
    counted from here on.
    """
    from ucb_moppo.cli.progress import make_reporter
    from ucb_moppo.training.resume import resume_run

    return resume_run(Path(path), make_reporter(quiet), force, max_seconds, executor, ray_address)
