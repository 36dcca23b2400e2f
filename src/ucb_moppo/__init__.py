"""Find a Pareto set of policies for problems with several objectives.

run = ucb_moppo.train("Hopper-v2", seed=0)
policy = run.policy([0.7, 0.3])
action = policy(observation)
"""

from __future__ import annotations

import contextlib
from typing import Any

from ucb_moppo.policy.policy import Policy
from ucb_moppo.store.run import Front, Run, load

__all__ = ["Front", "Policy", "Run", "load", "resume", "train"]

with contextlib.suppress(ImportError):  # a machine that only deploys policies has no Gymnasium
    import ucb_moppo.envs.registration  # noqa: F401  (makes ucb_moppo/Hopper-v2 and the others known to it)


def __getattr__(name: str) -> Any:
    # Training needs JAX and MuJoCo; a machine that only deploys a policy has neither.
    if name in ("resume", "train"):
        from ucb_moppo.training import train as api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
