"""A trained policy to deploy: numpy alone, no JAX and no simulator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.policy.actors import Actors, actors_from_tensors
from ucb_moppo.policy.html import numbers, to_html
from ucb_moppo.policy.networks import PAPER_NETWORK, Network, greedy_action
from ucb_moppo.spec import EnvSpec, ObservationPart


@dataclass(frozen=True, eq=False)
class Policy:
    """One trained policy conditioned on one preference: ``action = policy(observation)``.

    One that was trained for the utility of each episode's return (ESR) goes by what has accrued, too:
    ``policy.episode()`` keeps account of that, or ``policy(observation, accrued=..., time=...)`` is told.
    """

    spec: EnvSpec
    index: int
    """Which of the run's policies it is."""
    weight: NDArray
    """[m] the preference it is conditioned on."""
    expected_returns: NDArray
    """[m] returns measured at the evaluated weight that was best for the preference."""
    tensors: dict[str, NDArray]
    """actor.* and observation.* arrays, without a leading axis."""
    network: Network = PAPER_NETWORK
    """How the tensors act."""

    def __repr__(self) -> str:
        weight, returns = (numbers(values.tolist()) for values in (self.weight, self.expected_returns))
        return f"Policy({self.spec.name!r}, index={self.index}, weight=[{weight}], expected_returns=[{returns}])"

    def _repr_html_(self) -> str:
        """Give what a notebook shows."""
        returns = zip(self.spec.objectives, self.weight.tolist(), self.expected_returns.tolist(), strict=True)
        rows = {name: f"{value:,.4g} expected, weight {weight:.3g}" for name, weight, value in returns}
        layers, activation = self.network.hidden_layers, self.network.activation
        parameters = sum(array.size for name, array in self.tensors.items() if name.startswith("actor."))
        rows["actor"] = f"{parameters:,} parameters in {layers} hidden layers, {activation}"
        return to_html(f"Policy {self.index} for {self.spec.name}", rows)

    @property
    def actors(self) -> Actors:
        """What acts, without a leading axis."""
        return actors_from_tensors(self.tensors, self.network)

    def __call__(self, observation: Any, *, accrued: ArrayLike | None = None, time: ArrayLike | None = None) -> Any:
        """The deterministic action for one observation as the environment shows it, or for a batch of them.

        Box actions come in the environment's own range, Discrete and MultiDiscrete ones as integers. A batch has
        its axis first, in every array of a dict or a tuple. ``accrued`` are the rewards of the episode so far,
        summed per objective, [m] or [B, m], and ``time`` the steps it has taken, for a policy that goes by them.
        """
        inputs, single = self._encode(observation)
        inputs = self._extend(inputs, accrued, time)
        return self._finish(self.act(inputs), single)

    def _finish(self, actions: NDArray, single: bool) -> Any:
        """The actor's own actions as the environment takes them, one or a batch."""
        action = self.spec.action.to_space(actions)
        if not single:
            return action
        return int(action[0]) if self.spec.action.discrete else action[0]

    def act(self, inputs: NDArray, noise: NDArray | None = None) -> NDArray:
        """The actor's own actions for rows [B, input_size]: [B, a] or, if Discrete, [B]; deterministic without
        noise [B, num_outputs]."""
        weight = np.broadcast_to(self.weight.astype(np.float32), (len(inputs), len(self.weight)))
        return greedy_action(self.actors(inputs, weight, noise), self.spec.action.discrete)

    def sample(
        self,
        observation: Any,
        rng: np.random.Generator,
        *,
        accrued: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Any:
        """An action drawn from the policy as in training; else as when it is called.

        The utility of a mean return (SER) may be best served by chance: see ``--actions sampled``.
        """
        action = self.spec.action
        if not action.chosen and "actor.log_std" not in self.tensors:
            raise ConfigError("this policy comes without a standard deviation: there is nothing to sample from")
        inputs, single = self._encode(observation)
        shape = (len(inputs), action.num_outputs)
        noise = (rng.gumbel(size=shape) if action.chosen else rng.standard_normal(shape)).astype(np.float32)
        return self._finish(self.act(self._extend(inputs, accrued, time), noise), single)

    def episode(self) -> PolicyEpisode:
        """A new episode of this policy: acts on observations and is told what each action has earned."""
        return PolicyEpisode(self)

    def _extend(self, rows: NDArray, accrued: ArrayLike | None, time: ArrayLike | None) -> NDArray:
        """Rows with what has accrued and the time, for a policy that goes by them; refused without them."""
        spec = self.spec
        if not spec.shows_accrued:
            if accrued is not None or time is not None:
                raise ConfigError("this policy does not go by accrued returns: call it with the observation alone")
            return rows
        if accrued is None or time is None:
            raise ConfigError(
                f"this policy for {spec.name} goes by what its episode has returned so far: call it as policy("
                f"observation, accrued=..., time=...), or let `episode = policy.episode()` keep account of it"
            )
        count, num_objectives = len(rows), spec.num_objectives
        so_far, gone = np.asarray(accrued, float), np.asarray(time, float)
        if so_far.shape not in ((num_objectives,), (count, num_objectives)) or gone.shape not in ((), (count,)):
            raise ConfigError(
                f"accrued has shape {so_far.shape} and time {gone.shape} for {count} observations; give "
                f"({num_objectives},) and a number, or ({count}, {num_objectives}) and ({count},)"
            )
        wide = np.broadcast_to(so_far, (count, num_objectives)), np.broadcast_to(gone, (count,))
        return spec.extend(rows, *wide).astype(np.float32)

    def _encode(self, observation: Any) -> tuple[NDArray, bool]:
        """Rows [B, observation_size] of float32, and whether there was just one."""
        if not self.spec.parts:
            return self._encode_array(self._as_numbers(observation))
        found = [(part, self._find(part, observation)) for part in self.spec.parts]
        single = all(values.shape == part.shape for part, values in found)
        try:
            rows = [part.encode(values.reshape(-1, *part.shape)) for part, values in found]
        except ValueError as fault:
            raise ConfigError(f"{self.spec.name}: {fault}") from fault
        return np.concatenate(rows, axis=1).astype(np.float32), single

    def _find(self, part: ObservationPart, observation: Any) -> NDArray:
        """The values of a part, of one observation or of a batch; refused unless they are there and in shape."""
        place = f" at {list(part.path)}" if part.path else ""
        try:
            values = self._as_numbers(part.find(observation))
        except (LookupError, TypeError) as fault:
            raise ConfigError(
                f"an observation without anything{place} was given; {self.spec.name} shows {part.shape} there"
            ) from fault
        if values.shape[max(0, values.ndim - len(part.shape)) :] != part.shape:
            raise ConfigError(
                f"an observation of shape {values.shape} was given{place}; {self.spec.name} has shape {part.shape}"
            )
        return values

    def _as_numbers(self, observation: Any) -> NDArray:
        """An observation as an array; refused where it is none, as what ``env.reset()`` returns."""
        try:
            values = np.asarray(observation)
            if values.dtype.kind in "biuf":
                return values
        except ValueError:
            pass  # parts of different shapes
        pair = isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict)
        what = "the pair that env.reset() returns" if pair else f"{type(observation).__name__} {observation!r:.60}"
        remedy = "give its first part, the observation" if pair else "give what the environment shows"
        raise ConfigError(f"an observation is needed, but {what} was given; {remedy}")

    def _encode_array(self, observation: NDArray) -> tuple[NDArray, bool]:
        """Rows of one observation, or of a batch with its axis first, where only their size is known."""
        size, shape = self.spec.observation_size, observation.shape
        whole, rest = int(np.prod(shape)), int(np.prod(shape[1:]))
        if not whole or size not in (whole, rest):
            raise ConfigError(
                f"an observation of shape {shape} was given; {self.spec.name} shows {size} numbers: "
                f"give shape ({size},), or ([how many], {size}) for a batch"
            )
        # A picture of 2 × 3 is one observation of 6 numbers; a table of 1 × 6 is a batch of one.
        single = whole == size and (observation.ndim < 2 or shape[-1] != size)
        return observation.reshape(-1, size).astype(np.float32), single

    def save(self, path: str | Path) -> Path:
        """Write the policy to one file that ``ucb_moppo.load`` reads."""
        from ucb_moppo.store.policy_file import save_policy  # acting needs no files

        return save_policy(self, path)

    def export(self, path: str | Path, format: str | None = None) -> Path:
        """Write the policy as ``safetensors``, as ``onnx``, or as ``numpy``: a folder with the few lines that act.

        Without a format, the path's suffix tells it (.safetensors, .onnx, or none for a folder).
        """
        from ucb_moppo.store.export import export_policy

        return export_policy(self, path, format)

    def flatten(
        self, observation: Any, *, accrued: ArrayLike | None = None, time: ArrayLike | None = None
    ) -> NDArray:
        """Rows [B, input_size] that the actor sees of an observation, or of a batch: what exports take."""
        return self._extend(self._encode(observation)[0], accrued, time)


class PolicyEpisode:
    """One episode of a policy: ``action = episode(observation)``, then ``episode.observe(reward)``."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.accrued = np.zeros(policy.spec.num_objectives)
        """[m] the rewards so far."""
        self.time = 0

    def __call__(self, observation: Any) -> Any:
        """The deterministic action for one observation as the environment shows it."""
        if not self.policy.spec.shows_accrued:
            return self.policy(observation)
        return self.policy(observation, accrued=self.accrued, time=self.time)

    def observe(self, reward: ArrayLike) -> None:
        """Take account of what the last action has earned, a number per objective."""
        earned = np.asarray(reward, float)
        if earned.shape != self.accrued.shape:
            raise ConfigError(
                f"a reward of shape {earned.shape} was given; there are {len(self.accrued)} objectives"
            )
        self.accrued, self.time = self.accrued + earned, self.time + 1
