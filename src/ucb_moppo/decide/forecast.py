"""What a policy will do, told by fresh episodes: quantiles, the worst of them, and how surely bounds hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.bounds import Bounds
from ucb_moppo.decide.words import in_short
from ucb_moppo.policy.html import to_html

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
WORST = 0.05
"""Share of episodes that are called the worst."""
Z = 1.959964
"""Of a 95% interval."""


class Chance(NamedTuple):
    """A share of episodes, with the 95% interval (Wilson's) of the probability behind it."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Episodes:
    """What E episodes of one policy came to."""

    returns: NDArray
    """[E, m]"""
    steps: NDArray
    """[E] how long each was."""
    ended_early: NDArray
    """[E] whether the problem ended it, before its horizon."""

    def __len__(self) -> int:
        return len(self.returns)


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """What to expect of a policy, by episodes from initial states that nothing was chosen by."""

    objectives: tuple[str, ...]
    episodes: int
    mean: NDArray
    """[m]"""
    error: NDArray
    """[m] standard error of the mean; NaN of a single episode."""
    quantiles: NDArray
    """[5, m] 5%, 25%, 50%, 75% and 95% of the episodes are below."""
    worst: NDArray
    """[m] mean of the worst 5% of the episodes, of each objective for itself."""
    floors: dict[int, Chance]
    """By objective: how often the return was at least the floor."""
    ceilings: dict[int, Chance]
    """By objective: how often it was at most the ceiling."""
    all_hold: Chance | None
    """How often all of them held in one episode; None where nothing was asked."""
    ended_early: Chance
    """How often the problem ended the episode before its horizon."""
    steps: NDArray
    """[5] the same quantiles of the length of an episode."""

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {in_short(mean)}" for name, mean in zip(self.objectives, self.mean, strict=True))
        return f"Forecast({self.episodes} episodes: {means})"

    def _repr_html_(self) -> str:
        """Give what a notebook shows."""
        rows = {
            name: f"{in_short(mean)} on average, 90% of episodes from {in_short(low)} to {in_short(high)}"
            for name, mean, low, high in zip(
                self.objectives, self.mean, self.quantiles[0], self.quantiles[-1], strict=True
            )
        }
        if self.all_hold is not None:
            rows["all bounds hold"] = f"in {self.all_hold.share:.0%} of episodes"
        rows["ended early"] = f"{self.ended_early.share:.0%}"
        return to_html(f"What {self.episodes} fresh episodes came to", rows)

    def to_json(self) -> dict[str, Any]:
        """Numbers and names alone."""
        return {
            "episodes": self.episodes,
            "ended_early": self.ended_early._asdict(),
            "all_bounds_hold": None if self.all_hold is None else self.all_hold._asdict(),
            "steps": _by_share(self.steps),
            "objectives": {name: self._json_of(j) for j, name in enumerate(self.objectives)},
        }

    def _json_of(self, j: int) -> dict[str, Any]:
        held = {"floor_holds": self.floors.get(j), "ceiling_holds": self.ceilings.get(j)}
        return {
            "mean": float(self.mean[j]),
            "standard_error": None if np.isnan(self.error[j]) else float(self.error[j]),
            "quantiles": _by_share(self.quantiles[:, j]),
            "worst_5_percent": float(self.worst[j]),
            **{name: chance._asdict() for name, chance in held.items() if chance is not None},
        }


def _by_share(values: NDArray) -> dict[str, float]:
    return {f"{share:g}": float(value) for share, value in zip(QUANTILES, values, strict=True)}


def make_forecast(episodes: Episodes, objectives: tuple[str, ...], bounds: Bounds) -> Forecast:
    """Sum up episodes and how often the bounds held in them."""
    returns, count = episodes.returns, len(episodes)
    worst = max(1, round(WORST * count))
    given = bounds.given()
    return Forecast(
        objectives=objectives,
        episodes=count,
        mean=returns.mean(axis=0),
        error=returns.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full(returns.shape[1], np.nan),
        quantiles=np.quantile(returns, QUANTILES, axis=0),
        worst=np.sort(returns, axis=0)[:worst].mean(axis=0),
        floors={j: chance_of(returns[:, j] >= value) for j, floor, value in given if floor},
        ceilings={j: chance_of(returns[:, j] <= value) for j, floor, value in given if not floor},
        all_hold=chance_of(bounds.hold(returns)) if given else None,
        ended_early=chance_of(episodes.ended_early),
        steps=np.quantile(episodes.steps, QUANTILES),
    )


def chance_of(held: NDArray) -> Chance:
    """How often something held [E], with Wilson's interval, which is right for rare and for sure things too."""
    count, share = len(held), float(np.mean(held))
    centre = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * np.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    return Chance(share, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


def describe_chances(forecast: Forecast, bounds: Bounds) -> list[str]:
    """How often each bound held, all of them where there are several, and how many episodes ended early."""
    names = forecast.objectives
    told = [f"{names[j]} at least {in_short(bounds.floors[j])}: {_held(c)}" for j, c in forecast.floors.items()]
    told += [f"{names[j]} at most {in_short(bounds.ceilings[j])}: {_held(c)}" for j, c in forecast.ceilings.items()]
    if forecast.all_hold is not None and len(told) > 1:
        told.append(f"all of it: {_held(forecast.all_hold)}")
    return [*told, f"ended early: {describe_chance(forecast.ended_early)}"]


def _held(chance: Chance) -> str:
    return f"holds in {describe_chance(chance)}"


def describe_chance(chance: Chance) -> str:
    """60% of episodes (95% interval 50% to 69%)"""
    return f"{chance.share:.0%} of episodes (95% interval {chance.low:.0%} to {chance.high:.0%})"
