"""Gymnasium ids for the six problems: ``ucb_moppo/Hopper-v2``, and ``ucb_moppo/pgmorl-Hopper-v2`` as PGMORL has it.

Importing this module registers them, so code that only imports Gymnasium can write
``gymnasium.make("ucb_moppo.envs.registration:ucb_moppo/Hopper-v2")``. Registering is cheap: MuJoCo is
imported by the first environment that is made.
"""

from __future__ import annotations

import warnings

import gymnasium

from ucb_moppo.envs import PROBLEMS, PROTOCOLS

NAMESPACE = "ucb_moppo"


def gymnasium_id(name: str, protocol: str = "gymnasium") -> str:
    """The Gymnasium id of one of the six under a protocol."""
    return f"{NAMESPACE}/{name}" if protocol == "gymnasium" else f"{NAMESPACE}/{protocol}-{name}"


def register_problems() -> None:
    """Register the six with Gymnasium; calling it again changes nothing."""
    # Gymnasium takes Hopper-v3 for a newer Hopper-v2. They are two problems, with three objectives and two.
    warnings.filterwarnings("ignore", message=f".*{NAMESPACE}/.*Hopper-v2 is out of date.*")
    for protocol, problems in PROTOCOLS.items():
        for problem in problems.values():
            if problem.name not in PROBLEMS or gymnasium_id(problem.name, protocol) in gymnasium.registry:
                continue
            gymnasium.register(
                id=gymnasium_id(problem.name, protocol),
                entry_point="ucb_moppo.envs.single:MujocoProblemEnv",
                max_episode_steps=problem.horizon,
                disable_env_checker=True,  # Gymnasium's checker takes a vector reward for a mistake
                kwargs={"problem": problem.name, "protocol": protocol},
            )


register_problems()
