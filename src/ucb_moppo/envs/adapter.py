"""Any MO-Gymnasium environment, or any Gymnasium one with a vector reward, behind the batch protocol.

The environments are stepped one by one in this process. MO-Gymnasium's vector environments are not used:
after an episode they spend one step on a reset and ignore its action, they keep rewards in single precision,
and they cannot step some environments and leave the others alone.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from ucb_moppo.envs.base import ADAPTER_PREFIX, Step, check_count, check_reference_point
from ucb_moppo.envs.flattening import describe_action, describe_observation, lowest_values
from ucb_moppo.envs.known import KNOWN, Known, without_version
from ucb_moppo.envs.naming import read_name
from ucb_moppo.envs.streams import Streams, made_alike
from ucb_moppo.errors import ConfigError, EnvironmentFault, UcbMoppoWarning, not_installed, require
from ucb_moppo.spec import EnvSpec

DEFAULT_HORIZON = 1000
EXTRAS = {"highway_env": "highway"}
"""What of MO-Gymnasium's is to be installed for a module that one of its environments needs, and that can be beside
this package (that of mario, whose pictures are too large anyway, wants an older numpy)."""
_NOT_STARTED = -1
_NUM_RANDOM_EPISODES = 5
# Notices about an environment's declarations that its user cannot act on.
_NOISE = ".*(precision lowered by casting|is out of date|settotalmass).*"


def import_mo_gymnasium() -> ModuleType:
    """MO-Gymnasium, which registers its ids when imported, without pygame's greeting on the terminal."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import mo_gymnasium

    return mo_gymnasium


class GymBatch:
    """``num_envs`` environments of a Gymnasium id ("minecart-v0" or "package.module:some-id-v0").

    ``horizon`` replaces the environment's registered time limit (its default, else 1,000); an environment
    that truncates by itself is heeded. ``reference_point``: as given, else a published one, else the lowest
    return its reward space allows, else a little below the worst of a few random episodes. Observations are
    flattened (``flattening.py``); everything is float64. ``options`` go to ``gymnasium.make``, e.g.
    ``render_mode``.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        horizon: int | None = None,
        reference_point: Sequence[float] | None = None,
        **options: Any,
    ) -> None:
        check_count("num_envs", num_envs)
        if horizon is not None:
            check_count("horizon", horizon)
        self.name, self.num_envs = env_id.removeprefix(ADAPTER_PREFIX), num_envs
        self._envs = [make_env(self.name, **options) for _ in range(num_envs)]
        self._streams = Streams(self._envs)
        self.spec = describe_env(self.name, self._envs[0], horizon, reference_point)
        self._elapsed = np.full(num_envs, _NOT_STARTED, dtype=np.int64)
        self._seeds = np.zeros(num_envs, dtype=np.int64)
        self._actions: list[list[NDArray]] = [[] for _ in range(num_envs)]
        self._observation = np.zeros((num_envs, self.spec.observation_size))

    def reset(self, ids: NDArray, seeds: Sequence[int]) -> NDArray:
        """Start new episodes in environments ``ids`` [n]; observations [n, observation_size]."""
        ids, shown = np.asarray(ids, dtype=np.int64), []
        with self._streams.lent():
            for env, seed in zip(ids.tolist(), map(int, seeds), strict=True):
                self._elapsed[env], self._seeds[env], self._actions[env] = 0, seed, []
                try:
                    self._streams.begin(env, seed)
                    shown.append(self._envs[env].reset(seed=seed)[0])
                except Exception as fault:
                    raise self._fault(env, fault) from fault
        return self._see(ids, shown)

    def step(self, action: NDArray, ids: NDArray | None = None) -> Step:
        """Step environments ``ids`` [n] (all by default): actions [n, a], or choices [n] if Discrete."""
        rows = np.arange(self.num_envs) if ids is None else np.asarray(ids, dtype=np.int64)
        actions = self._checked(action, len(rows))
        shown, paid, ended, cut = self._step_each(rows.tolist(), self._own_actions(actions))
        reward = self._checked_rewards(rows, paid)
        for env, taken in zip(rows.tolist(), actions, strict=True):
            self._actions[env].append(taken)
        observation = self._see(rows, shown)
        self._elapsed[rows] += 1
        terminated = np.array(ended, dtype=bool)
        truncated = (np.array(cut, dtype=bool) | (self._elapsed[rows] >= self.spec.horizon)) & ~terminated
        return Step(observation, reward, terminated, truncated)

    def render(self, env: int = 0) -> NDArray:
        """A picture [height, width, 3] of one environment made with ``render_mode="rgb_array"``."""
        with self._faults_named(env):
            picture = np.asarray(self._envs[env].render())
        if picture.ndim != 3 or picture.shape[2] != 3:
            raise EnvironmentFault(f"{self.name} draws no picture: its render() returned {picture!r:.60}")
        return picture.astype(np.uint8)

    @property
    def environments(self) -> tuple[gymnasium.Env, ...]:
        """The environments themselves, for what the batch protocol does not cover."""
        return tuple(self._envs)

    def get_state(self) -> dict[str, NDArray]:
        """Reset ``seeds`` [B], ``elapsed`` steps [B], the ``actions`` since the resets, one environment after
        the other [Σ elapsed, a], and the latest ``observation`` [B, d]."""
        taken = [action for actions in self._actions for action in actions]
        shape = () if self.spec.action.discrete else (self.spec.action.size,)
        return {
            "seeds": self._seeds.copy(),
            "elapsed": self._elapsed.copy(),
            "actions": np.array(taken) if taken else np.empty((0, *shape)),
            "observation": self._observation.copy(),
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Reset with the saved seeds and replay the saved actions.

        An environment cannot be asked for its state, so this is exact where all its randomness comes from its
        seed; where the replay arrives elsewhere, a warning says so.
        """
        elapsed = np.asarray(state["elapsed"])
        if elapsed.shape != (self.num_envs,):
            raise ConfigError(
                f"{self.name}: a state of {len(elapsed)} environments does not fit a batch of "
                f"{self.num_envs}; make the batch with num_envs={len(elapsed)}"
            )
        ends = np.cumsum(np.maximum(elapsed, 0))
        for env, (start, end) in enumerate(zip(ends - np.maximum(elapsed, 0), ends, strict=True)):
            if elapsed[env] != _NOT_STARTED:
                self._replay(env, int(state["seeds"][env]), state["actions"][start:end])
        if not np.array_equal(self._observation, state["observation"]):
            warnings.warn(
                f"{self.name} did not come back to where it was saved: not all its randomness comes from its "
                "seed, so what follows differs from an uninterrupted run",
                stacklevel=2,
            )

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()

    # --- the environments themselves -------------------------------------------------------------------------

    def _step_each(self, ids: list[int], actions: NDArray) -> tuple[list[Any], ...]:
        """Observations, rewards, terminations and truncations as the environments ``ids`` return them."""
        elapsed, envs, enter = self._elapsed.tolist(), self._envs, self._streams.enter
        for env in ids:
            if elapsed[env] == _NOT_STARTED:
                raise EnvironmentFault(f"{self.name}: environment {env} was stepped before its first reset")
        results, env = [], 0
        with self._streams.lent():
            try:
                for env, action in zip(ids, actions, strict=True):
                    enter(env, elapsed[env])
                    results.append(envs[env].step(action))
            except Exception as fault:
                raise self._fault(env, fault) from fault
        return tuple(map(list, zip(*results, strict=True)))[:4] if results else ([], [], [], [])

    def _checked_rewards(self, ids: NDArray, paid: list[Any]) -> NDArray:
        """Rewards [n, m]; refused unless every environment pays as many finite numbers as there are objectives."""
        shape = (len(paid), self.spec.num_objectives)
        try:
            rewards = np.array(paid, dtype=np.float64) if paid else np.empty(shape)
        except (TypeError, ValueError):
            rewards = np.empty(0)  # not even alike
        if rewards.shape != shape or not np.isfinite(rewards).all():
            for env, reward in zip(ids.tolist(), paid, strict=True):
                self._check_reward(env, reward)
        return rewards

    def _check_reward(self, env: int, paid: Any) -> None:
        with self._faults_named(env):
            reward = np.asarray(paid, dtype=np.float64)
        if reward.shape != (self.spec.num_objectives,) or not np.isfinite(reward).all():
            raise EnvironmentFault(
                f"{self.name}: environment {env} paid {paid!r} at step {self._elapsed[env] + 1} from seed "
                f"{self._seeds[env]}; its step must return {self.spec.num_objectives} finite rewards",
                env,
            )

    def _replay(self, env: int, seed: int, actions: NDArray) -> None:
        self.reset(np.array([env]), [seed])
        for action in actions:
            self.step(action[None], np.array([env]))

    def _see(self, ids: NDArray, shown: list[Any]) -> NDArray:
        """Keep observations of environments ``ids``, and return them as rows [n, observation_size]."""
        try:
            rows = self._encode(shown)
        except Exception:
            rows = np.concatenate([self._encode_one(env, seen) for env, seen in zip(ids, shown, strict=True)])
        self._observation[ids] = rows
        return rows

    def _encode_one(self, env: int, seen: Any) -> NDArray:
        """One row, or who has shown what cannot be one."""
        with self._faults_named(env):
            return self._encode([seen])

    def _encode(self, shown: list[Any]) -> NDArray:
        rows = self.spec.encode(shown)
        if not np.isfinite(rows).all():
            raise ValueError(f"observation {shown[0]!r} is not finite")
        return rows

    def _checked(self, action: NDArray, num_rows: int) -> NDArray:
        """The actor's actions as float64 [n, a] or int64 [n], refused in any other shape."""
        wanted = self.spec.action
        actions = np.asarray(action, dtype=np.int64 if wanted.discrete else np.float64)
        shape = (num_rows,) if wanted.discrete else (num_rows, wanted.size)
        if actions.shape != shape:
            raise ConfigError(
                f"{self.name}: actions of shape {actions.shape} for {num_rows} environments; "
                f"pass a row per environment, shape {shape}"
            )
        return actions

    def _own_actions(self, actions: NDArray) -> NDArray:
        """Actors' actions -> those of the environment's action space, an axis for the environments first."""
        return self.spec.action.to_space(actions)

    def _fault(self, env: int, fault: Exception) -> EnvironmentFault:
        since = f"{self._elapsed[env]} steps from seed {self._seeds[env]}"
        where = f"{self.name}: environment {env} failed after {since}"
        return EnvironmentFault(f"{where}: {type(fault).__name__}: {fault}", env)

    @contextmanager
    def _faults_named(self, env: int) -> Iterator[None]:
        try:
            yield
        except Exception as fault:
            raise self._fault(env, fault) from fault


@contextmanager
def faults_named(where: str) -> Iterator[None]:
    """Report any exception of an environment's own as an EnvironmentFault that says where it happened."""
    try:
        yield
    except Exception as fault:
        raise EnvironmentFault(f"{where}: {type(fault).__name__}: {fault}") from fault


# --- making an environment and describing it ---------------------------------------------------------------


def registered_spec(env_id: str) -> gymnasium.envs.registration.EnvSpec:
    """Gymnasium's entry for an id; a module before a colon is imported first, as ``gymnasium.make`` does.

    Options after an @ stand above those that it was registered with.
    """
    name = read_name(env_id)
    if name.module:
        importlib.import_module(name.module)
    else:
        import_mo_gymnasium()
    spec = gymnasium.spec(name.env_id)
    return replace(spec, kwargs={**spec.kwargs, **name.options})


_MADE: set[str] = set()
"""Ids of which this process has made an environment."""


def make_env(env_id: str, **options: Any) -> gymnasium.Env:
    """One environment without a time limit: the batch counts steps itself."""
    try:
        with warnings.catch_warnings(), made_alike():
            warnings.filterwarnings("ignore", message=_NOISE)
            if env_id in _MADE:  # what there is to say about it has been said, a hundred environments ago
                warnings.simplefilter("ignore")
            _MADE.add(env_id)
            # The batch sees to the order of resets and steps itself.
            spec = replace(registered_spec(env_id), order_enforce=False)
            if isinstance(spec.entry_point, str):
                load_env_creator(spec.entry_point)  # brings MuJoCo along, if it is made with that
            with physics_warning_once():
                return gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, **options)
    except Exception as fault:
        if isinstance(fault, gymnasium.error.DependencyNotInstalled) and "Box2D" in str(fault):
            raise not_installed(env_id, ["Box2D"], "box2d") from fault
        package = (fault.name or "").partition(".")[0] if isinstance(fault, ModuleNotFoundError) else ""
        if package in EXTRAS:
            raise not_installed(env_id, [package], EXTRAS[package], of="mo-gymnasium") from fault
        raise ConfigError(
            f"{env_id} cannot be made: {type(fault).__name__}: {fault}; "
            "check its id, the module before the colon, options after an @ and the packages it needs"
        ) from fault


@lru_cache(maxsize=32)
def warn_once(message: str) -> None:
    """Warn of what a library has said, the first time that it says so."""
    warnings.warn(message, UcbMoppoWarning, stacklevel=2)


@contextmanager
def physics_warning_once() -> Iterator[None]:
    """What MuJoCo says of a model, once: it would print it for each of a hundred environments, and into a log file
    in the current folder."""
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is None:
        yield
        return
    mujoco.set_mju_user_warning(warn_once)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)


def describe_env(
    env_id: str, env: gymnasium.Env, horizon: int | None, reference_point: Sequence[float] | None
) -> EnvSpec:
    """What the engine needs to know, read from one environment and, for its rewards, from stepping it."""
    # First what costs nothing to know: pictures are refused before an episode of them is drawn.
    seen = describe_observation(env_id, env.observation_space)
    action = describe_action(env_id, env.action_space)
    num_objectives = count_objectives(env_id, env)
    limit = horizon or registered_spec(env_id).max_episode_steps or DEFAULT_HORIZON
    known = KNOWN.get(without_version(env_id), Known((), None))
    point = check_reference_point(reference_point, num_objectives) or known.reference_point
    return EnvSpec(
        name=env_id,
        objectives=name_objectives(env_id, env, known.objectives, num_objectives),
        action=action,
        horizon=limit,
        reference_point=point or derive_reference_point(env_id, env, limit),
        **seen,
    )


def declared(env: gymnasium.Env, name: str, otherwise: Any = None) -> Any:
    """What the outermost wrapper that has such an attribute says, or the environment itself."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else otherwise


def name_objectives(
    env_id: str, env: gymnasium.Env, published: tuple[str, ...], num_objectives: int
) -> tuple[str, ...]:
    """Names of the objectives [m]: those that the environment says, else the published ones, else numbers."""
    said = read_names(declared(env, "objectives"))
    require(
        len(said) in (0, num_objectives),
        f"{env_id} pays {num_objectives} rewards, but its attribute `objectives` names {len(said)} "
        f"({', '.join(said)}); name {num_objectives} there, or leave the attribute out",
    )
    numbered = tuple(f"objective {number + 1}" for number in range(num_objectives))
    return said or (published if len(published) == num_objectives else numbered)


def read_names(objectives: Any) -> tuple[str, ...]:
    """Names of objectives; none where an attribute of that name is something else than a list of words."""
    listed = isinstance(objectives, list | tuple) and all(isinstance(name, str) for name in objectives)
    return tuple(map(str, objectives)) if listed else ()


def count_objectives(env_id: str, env: gymnasium.Env) -> int:
    """m, as declared; refused unless it is two or more and a step pays as many."""
    space = declared(env, "reward_space")
    shape = getattr(space, "shape", None)
    if shape is None or len(shape) != 1 or shape[0] < 2:
        raise ConfigError(f"{env_id} {describe_lack(env_id, env, space)}")
    paid = next(random_rewards(env_id, env, seed=0))
    if paid.shape != shape:
        raise ConfigError(
            f"{env_id} declares {shape[0]} objectives but a step paid {paid.tolist()}; "
            "make its reward_space and its rewards agree"
        )
    return int(shape[0])


def describe_lack(env_id: str, env: gymnasium.Env, space: Any) -> str:
    """What is wrong with a reward space that is no vector, or is not there, and what to do about it."""
    paid = next(random_rewards(env_id, env, seed=0)) if space is None else np.empty(0)
    if paid.ndim == 1 and len(paid) >= 2:
        return (
            f"pays {len(paid)} rewards a step but has no reward_space: add "
            f"`reward_space = Box(low, high, ({len(paid)},))` to it, with the least and the most that a step pays"
        )
    found = (
        "has no reward_space: it pays a single reward"
        if space is None
        else f"declares the reward space {space}, which is no vector of two or more numbers"
    )
    return (
        f"{found}; pick an environment with a reward_space of two or more objectives, as MO-Gymnasium's are, "
        "or wrap it in one that has such a reward_space and pays as many"
    )


def derive_reference_point(env_id: str, env: gymnasium.Env, horizon: int) -> tuple[float, ...]:
    """Below every return the reward space allows, [m]; below random play where it allows anything."""
    low = lowest_values(declared(env, "reward_space"))
    # An episode may end after one step, so a positive floor counts once.
    worst = np.minimum(low, low * horizon)
    if not np.isfinite(worst).all():
        returns = random_returns(env_id, env, _NUM_RANDOM_EPISODES, horizon)
        spread = np.ptp(returns, axis=0)
        measured = returns.min(axis=0) - np.where(spread > 0, 0.1 * spread, 1.0)
        worst = np.where(np.isfinite(worst), worst, measured)
    return tuple(worst.tolist())


def random_returns(env_id: str, env: gymnasium.Env, num_episodes: int, max_steps: int) -> NDArray:
    """Returns [num_episodes, m] of random actions, cut after some steps."""
    episodes = (random_rewards(env_id, env, seed) for seed in range(num_episodes))
    return np.array([sum(islice(episode, max_steps)) for episode in episodes])


def random_rewards(env_id: str, env: gymnasium.Env, seed: int) -> Iterator[NDArray]:
    """The rewards [m] of an episode of random actions, one by one."""
    streams, actions = Streams([env]), deepcopy(env.action_space)
    actions.seed(seed)
    where = f"{env_id}: the environment failed under random actions, seed {seed}"
    with faults_named(where), streams.lent():
        streams.begin(0, seed)
        env.reset(seed=seed)
        done = False
        while not done:
            _, paid, terminated, truncated, _ = env.step(actions.sample())
            done = bool(terminated or truncated)
            yield np.asarray(paid, dtype=np.float64)
