"""What is published about MO-Gymnasium's environments: names of the objectives, and reference points."""

from __future__ import annotations

import re
from typing import NamedTuple

from ucb_moppo.envs.naming import read_name


class Known(NamedTuple):
    """What is published about an environment but cannot be read from it."""

    objectives: tuple[str, ...]
    reference_point: tuple[float, ...] | None  # None: derived from the reward space


def _known_mujoco(*objectives: str, reference: float = -100.0) -> Known:
    return Known(objectives, (reference,) * len(objectives))


_SPEED, _CONTROL, _TIME = "forward speed", "control cost", "time"
_XY = ("speed along x", "speed along y")
_NUTRIENTS = ("protein", "carbohydrates", "fats", "vitamins", "minerals", "water")

# By id without its version. Reference points are morl-baselines', but for resource-gathering: there 0 is the
# best value of the first objective, and every hypervolume measured from the origin would be 0.
KNOWN: dict[str, Known] = {
    "deep-sea-treasure": Known(("treasure", _TIME), (0.0, -50.0)),
    "deep-sea-treasure-concave": Known(("treasure", _TIME), (0.0, -50.0)),
    "deep-sea-treasure-mirrored": Known(("treasure", _TIME), (0.0, -50.0)),
    "minecart": Known(("first ore", "second ore", "fuel"), (-1.0, -1.0, -200.0)),
    "minecart-deterministic": Known(("first ore", "second ore", "fuel"), (-1.0, -1.0, -200.0)),
    "minecart-rgb": Known(("first ore", "second ore", "fuel"), (-1.0, -1.0, -200.0)),
    "resource-gathering": Known(("survival", "gold", "diamond"), (-1.0, -1.0, -1.0)),
    "fruit-tree": Known(_NUTRIENTS, (0.0,) * 6),
    "four-room": Known(("blue squares", "green triangles", "red circles"), (0.0,) * 3),
    "fishwood": Known(("fish", "wood"), None),  # as its code pays; its docstring has them the other way round
    "mo-mountaincar": Known((_TIME, "reverse", "forward"), (-200.0,) * 3),
    "mo-mountaincarcontinuous": Known((_TIME, "fuel"), None),
    "mo-lunar-lander": Known(
        ("landing", "shaping", "main engine", "side engine"), (-101.0, -1001.0, -101.0, -101.0)
    ),
    "mo-lunar-lander-continuous": Known(
        ("landing", "shaping", "main engine", "side engine"), (-101.0, -1001.0, -101.0, -101.0)
    ),
    "mo-hopper": _known_mujoco(_SPEED, "jump height", _CONTROL),
    "mo-hopper-2d": _known_mujoco(_SPEED, "jump height"),
    "mo-hopper-2obj": _known_mujoco(_SPEED, "jump height"),
    "mo-halfcheetah": _known_mujoco(_SPEED, _CONTROL),
    "mo-walker2d": _known_mujoco(_SPEED, _CONTROL),
    "mo-ant": _known_mujoco(*_XY, _CONTROL),
    "mo-ant-2d": _known_mujoco(*_XY),
    "mo-ant-2obj": _known_mujoco(*_XY),
    "mo-swimmer": _known_mujoco(_SPEED, _CONTROL),
    "mo-humanoid": _known_mujoco(_SPEED, _CONTROL),
    "mo-reacher": _known_mujoco("target 1", "target 2", "target 3", "target 4", reference=-50.0),
}

PICTURES = frozenset({"minecart-rgb", "mo-supermario"})
"""What shows pictures of more numbers than can be handled (``flattening.py::MAX_NUMBERS``)."""


def without_version(env_id: str) -> str:
    """The name an environment has in ``KNOWN``: "mo-hopper-v5" is "mo-hopper" there, whatever it is made with."""
    return re.sub(r"-v\d+$", "", read_name(env_id).env_id)


def published_objectives(env_id: str) -> tuple[str, ...]:
    """Names of an environment's objectives; none where nothing is published about it."""
    known = KNOWN.get(without_version(env_id))
    return known.objectives if known else ()
