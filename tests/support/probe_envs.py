"""Tiny environments with vector rewards whose values are known in closed form: "probe_envs:probe/Counter-v0".

All objectives are maximised. Every one counts the steps of its episode in ``self.time``.
"""

from __future__ import annotations

import os
import random
import signal
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Space, Tuple
from numpy.typing import NDArray

PLANE = Box(-np.inf, np.inf, (2,), np.float64)


class Counter(gymnasium.Env):
    """Observes [time, a number drawn at reset]; pays (1, action); terminates at step ``ends_at``.

    The second objective of a return is the sum of the actions, so an ignored action shows.
    """

    observation_space: Space = PLANE
    action_space: Space = Discrete(3)
    reward_space: Space = Box(0.0, 2.0, (2,), np.float64)

    def __init__(self, ends_at: int | None = 5, cuts_at: int | None = None) -> None:
        self.ends_at, self.cuts_at = ends_at, cuts_at
        self.time, self.start = 0, 0.0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.time, self.start = 0, float(self.np_random.uniform())
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        self.time += 1
        reward = self.pay(action)
        return self.look(), reward, self.time == self.ends_at, self.time == self.cuts_at, {}

    def look(self) -> Any:
        return np.array([self.time, self.start])

    def pay(self, action: Any) -> Any:
        return np.array([1.0, float(action)])


class Number(Counter):
    """Observes its time as one of 10, 11, 12, 13 (Discrete that does not start at 0); so are its actions."""

    observation_space = Discrete(4, start=10)
    action_space = Discrete(2, start=5)

    def look(self) -> Any:
        return np.int64(10 + self.time % 4)


class Picture(Counter):
    """Observes a 2 × 3 picture of small integers."""

    observation_space = Box(0, 255, (2, 3), np.uint8)

    def look(self) -> Any:
        return np.full((2, 3), self.time, dtype=np.uint8)


class Echo(Counter):
    """Pays the action it was given, from [-2, 2] × [0, 10]."""

    action_space = Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64)
    reward_space = PLANE

    def pay(self, action: Any) -> Any:
        return np.array(action)


class HalfBounded(Echo):
    """Pays the action it was given: the first component unbounded, the second at least 0."""

    action_space = Box(np.array([-np.inf, 0.0]), np.array([np.inf, np.inf]), dtype=np.float64)


class Walk(Counter):
    """A random walk moved by noise from the environment's own generator, so its seed tells all."""

    reward_space = PLANE

    def pay(self, action: Any) -> Any:
        self.start += float(self.np_random.normal()) + float(action)
        return np.array([self.start, -self.start])


class Forgetful(Walk):
    """A random walk moved by noise that no seed controls."""

    def pay(self, action: Any) -> Any:
        self.start += np.random.default_rng().normal()
        return np.array([self.start, -self.start])


class Scalar(Counter):
    """Pays one number and declares no reward space."""

    reward_space = None  # type: ignore[assignment]

    def pay(self, action: Any) -> Any:
        return 1.0


class Undeclared(Counter):
    """Pays two numbers and declares no reward space."""

    reward_space = None  # type: ignore[assignment]


class Misnamed(Counter):
    """Pays two numbers and names three."""

    objectives = ("a", "b", "c")


class SecretScalar(Counter):
    """Declares two objectives and pays one number."""

    def pay(self, action: Any) -> Any:
        return 1.0


class Disagreeing(Counter):
    """Declares three objectives and pays two."""

    reward_space = Box(0.0, 1.0, (3,), np.float64)


class Raising(Counter):
    """Fails at its third step."""

    def pay(self, action: Any) -> NDArray:
        if self.time == 3:
            raise RuntimeError("the motor burnt out")
        return np.array([1.0, float(action)])


class Deadly(Counter):
    """Kills its own process at its third step, as a crash in a simulator's library does."""

    def pay(self, action: Any) -> NDArray:
        if self.time == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.array([1.0, float(action)])


class NotANumber(Counter):
    """Pays NaN at its third step."""

    def pay(self, action: Any) -> NDArray:
        return np.array([1.0, np.nan if self.time == 3 else float(action)])


class Chord(Counter):
    """Takes actions of a kind that is not supported."""

    action_space = Tuple((Discrete(2), Discrete(2)))

    def pay(self, action: Any) -> NDArray:
        return np.array([1.0, 1.0])


class Buttons(Counter):
    """Pays the two choices it was given: one of 1, 2, 3 and one of 5, 6."""

    action_space = MultiDiscrete([3, 2], start=[1, 5])
    reward_space = PLANE

    def pay(self, action: Any) -> NDArray:
        assert action in self.action_space
        return np.array(action, dtype=np.float64)


class Switches(Counter):
    """Pays how many of its 2 × 2 switches are on, and how many of the first row."""

    action_space = MultiBinary((2, 2))
    reward_space = PLANE

    def pay(self, action: Any) -> NDArray:
        assert action in self.action_space
        return np.array([action.sum(), action[0].sum()], dtype=np.float64)


class Room(Counter):
    """Shows spaces of every kind at once; what each holds follows from the time."""

    observation_space = Dict(
        {
            "place": Box(-1.0, 1.0, (2,), np.float64),
            "door": Discrete(3, start=1),
            "lamps": MultiBinary(2),
            "pair": Tuple((MultiDiscrete([2, 3]), Box(0, 4, (1,), np.int32))),
        }
    )

    def look(self) -> Any:
        return {
            "place": np.array([0.5, -0.1 * self.time]),
            "door": np.int64(1 + self.time % 3),
            "lamps": np.array([self.time % 2, 1], dtype=np.int8),
            "pair": (np.array([1, self.time % 3]), np.array([self.time % 5], dtype=np.int32)),
        }


class Outside(Counter):
    """Shows a small integer that leaves its space at the third step."""

    observation_space = Box(0, 20, (1,), np.int32)

    def look(self) -> Any:
        return np.array([7 * self.time], dtype=np.int32)


class Locks(gymnasium.Env):
    """Shows a code of two numbers; pays 1 for each lock whose number is chosen, so at best T of both."""

    observation_space: Space = Dict({"code": MultiDiscrete([3, 2])})
    action_space: Space = MultiDiscrete([3, 2])
    reward_space: Space = Box(0.0, 1.0, (2,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self.look(), {}

    def look(self) -> Any:
        self.code = self.np_random.integers([3, 2])
        return {"code": self.code}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        reward = (np.asarray(action) == self.code).astype(np.float64)
        return self.look(), reward, False, False, {}


class Borrowing(Counter):
    """A random walk moved by noise from everywhere but its own generator."""

    reward_space = PLANE

    def pay(self, action: Any) -> Any:
        self.start += np.random.normal() + random.random() + self.action_space.sample()  # noqa: NPY002
        return np.array([self.start, -self.start])


class Talker(Counter):
    """Observes a sequence that grows with time, which is not a vector."""

    observation_space = Sequence(Discrete(3))

    def look(self) -> Any:
        return (0,) * self.time


class Grades(Counter):
    """Pays (1, action), declared as one of -1, 0, 1 and one of 0, 1, 2."""

    reward_space = MultiDiscrete([3, 3], start=[-1, 0])


class Medals(Counter):
    """Pays (1, action), declared as two numbers that are 0 or 1."""

    reward_space = MultiBinary(2)
    action_space = Discrete(2)


class Pair(Space):
    """Two numbers, of which nothing else is said."""

    def __init__(self) -> None:
        super().__init__((2,), np.float64)


class Unbounded(Counter):
    """Pays (1, action), declared as a kind of space that has no bounds."""

    reward_space = Pair()


class Grid(Counter):
    """Declares rewards of two rows."""

    reward_space = Box(0.0, 1.0, (2, 2), np.float64)


class Vast(Counter):
    """Shows one of ten thousand million places."""

    observation_space = Discrete(10**10)

    def look(self) -> Any:
        return np.int64(self.time)


class VastCode(Counter):
    """Shows two places in a Dict, one of them among a million million."""

    observation_space = Dict({"code": MultiDiscrete(np.array([3, 10**12]))})

    def look(self) -> Any:
        return {"code": np.array([0, self.time])}


class VastChoice(Counter):
    """Takes one of ten thousand million actions."""

    action_space = Discrete(10**10)

    def pay(self, action: Any) -> NDArray:
        return np.array([1.0, 1.0])


class PaidTwice(gymnasium.Wrapper):
    """Pays what an environment of one reward does as (reward, -reward), and says so."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.reward_space = Box(-1.0, 1.0, (2,), np.float64)
        self.objectives = ["gain", "loss"]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        seen, reward, *rest = super().step(action)
        return seen, np.array([reward, -float(reward)]), *rest


def paid_twice() -> gymnasium.Env:
    """An environment of one reward in a wrapper, as a function makes it."""
    return gymnasium.wrappers.TransformObservation(PaidTwice(Scalar()), lambda seen: seen, PLANE)


class Counted(Counter):
    """Has a number where others have the names of their objectives."""

    objectives = 2


class Wearing(Counter):
    """Pays infinity at the 25th step of its life, over all its episodes."""

    def __init__(self) -> None:
        super().__init__(ends_at=5)
        self.age = 0

    def pay(self, action: Any) -> NDArray:
        self.age += 1
        return np.array([1.0, np.inf if self.age == 25 else float(action)])


class Trade(gymnasium.Env):
    """Shows a number c in [-½, ½] and pays (1 − (a − c − ½)², 1 − (a − c + ½)²) for an action a in [-1, 1].

    With u = a − c + ½ that is (1 − (1 − u)², 1 − u²). Its Pareto front over an episode of T steps is T times
    that curve for u in [0, 1], and the best u for the weight w is w_1, i.e. a = c + (w_1 − w_2) / 2.
    """

    observation_space: Space = Box(-0.5, 0.5, (1,), np.float64)
    action_space: Space = Box(-1.0, 1.0, (1,), np.float64)
    reward_space: Space = Box(-3.0, 1.0, (2,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.shown = self.np_random.uniform(-0.5, 0.5, 1)
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        position = float(action[0] - self.shown[0]) + 0.5
        self.shown = self.np_random.uniform(-0.5, 0.5, 1)
        return self.shown, np.array([1 - (1 - position) ** 2, 1 - position**2]), False, False, {}


class Ball(gymnasium.Env):
    """Pays its action a in [-1, 1]^m, moved to the unit ball if it lies outside; always shows 0.

    The front over an episode of T steps is the part of the sphere of radius T in the positive orthant, and the
    best return for the weight w is T w / |w|.
    """

    observation_space: Space = Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, num_objectives: int = 3) -> None:
        self.action_space: Space = Box(-1.0, 1.0, (num_objectives,), np.float64)
        self.reward_space: Space = Box(-1.0, 1.0, (num_objectives,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        return np.zeros(1), action / max(1.0, float(np.linalg.norm(action))), False, False, {}


class Undescribed(Counter):
    """Gymnasium has something to say about it: its metadata name no render modes."""

    metadata: ClassVar[dict[str, Any]] = {}


def register(name: str, entry_point: type[gymnasium.Env], steps: int | None = None, **kwargs: Any) -> None:
    """Register ``probe/<name>`` with a time limit of ``steps``."""
    gymnasium.register(f"probe/{name}", entry_point=entry_point, max_episode_steps=steps, kwargs=kwargs)


register("Counter-v0", Counter)
register("Limited-v0", Counter, steps=4, ends_at=None)
register("Endless-v0", Counter, ends_at=None)
register("SelfCutting-v0", Counter, ends_at=None, cuts_at=3)
register("Number-v0", Number)
register("Picture-v0", Picture)
register("Echo-v0", Echo)
register("HalfBounded-v0", HalfBounded)
register("Walk-v0", Walk, ends_at=None)
register("Forgetful-v0", Forgetful, ends_at=None)
register("Scalar-v0", Scalar)
register("SecretScalar-v0", SecretScalar)
register("Undeclared-v0", Undeclared)
register("Misnamed-v0", Misnamed)
register("Disagreeing-v0", Disagreeing)
register("Raising-v0", Raising)
register("Deadly-v0", Deadly)
register("NotANumber-v0", NotANumber)
register("Chord-v0", Chord)
register("Undescribed-v0", Undescribed)
register("Buttons-v0", Buttons)
register("Switches-v0", Switches)
register("Room-v0", Room)
register("Outside-v0", Outside)
register("Locks-v0", Locks, steps=5)
register("Borrowing-v0", Borrowing, ends_at=None)
register("Talker-v0", Talker)
register("Wearing-v0", Wearing)
register("Grades-v0", Grades)
register("Medals-v0", Medals)
register("Unbounded-v0", Unbounded)
register("Grid-v0", Grid)
register("Vast-v0", Vast)
register("VastCode-v0", VastCode)
register("VastChoice-v0", VastChoice)
register("PaidTwice-v0", paid_twice)  # type: ignore[arg-type]
register("Counted-v0", Counted)
register("Trade-v0", Trade, steps=5)
register("Ball-v0", Ball, steps=5)
register("FourBall-v0", Ball, steps=5, num_objectives=4)
register("SixBall-v0", Ball, steps=5, num_objectives=6)
register("NineBall-v0", Ball, steps=5, num_objectives=9)
