"""Utilities that are no weighted sum, against known answers and against the nearest weighted sum.

    python benchmarks/utilities.py [treasure] [fishwood] [hopper] [--out runs/utilities] [--seeds 0 1 2]

treasure: deep-sea-treasure-concave, of which weights find the two ends; how many of its ten points an achievement
function finds, and what the even preference picks (the best is (50, −14), min of the normalised objectives 0.278;
with sampled actions and SER half of the episodes at each end, 0.5).
fishwood: min(fish, wood / 2) over 200 steps, by 500 fresh episodes of the policy for the even preference; the best
mean of it is 16.21 (dynamic programming), the best of the means 16.36. hopper: Hopper-v2 with a floor on jump
height, by 100 fresh episodes: how often the floor holds for a preference that wants speed, and for the weighted sum
whose mean return is nearest above it. Runs that are there already are not trained again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

import ucb_moppo
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.fresh import run_fresh_episodes
from ucb_moppo.policy.policy import Policy
from ucb_moppo.training.reevaluate import load_config

TREASURE = {
    "horizon": 30,
    "steps": 60_000,
    "utility": "chebyshev",
    "ideal": (124.0, -1.0),
    "nadir": (0.0, -19.0),
}
"""From (1, −1) to (124, −19) objectives are normalised as the known answer has them."""
MIXTURE = {
    "steps": 100_000,
    "criterion": "ser",
    "actions": "sampled",
    "rho": 0.0,
    "gamma": 1.0,
    "gae_lambda": 1.0,
    "entropy_coefficient": 0.02,
    "episodes": 50,
}
"""Chance between the two ends, which the mean of the even preference is best served by."""
ONE_PREFERENCE = {"layout": "static", "method": "fixed", "policies": 1, "pivots": ((0.5, 0.5),), "probes": 1}
FISHWOOD = {
    "horizon": 200,
    "steps": 200_000,
    "utility": "chebyshev",
    "ideal": (16.0, 32.0),
    "nadir": (0.0, 0.0),
    "rho": 0.0,
    "objective_scales": (1.0, 1.0),
    "episodes": 10,
    "active": 32,
    "samples": 1600,
    "minibatch": 160,
    "entropy_coefficient": 0.02,
    **ONE_PREFERENCE,
}
FISHWOOD_BY = {"esr": {"criterion": "esr", "gae_lambda": 1.0}, "ser": {"criterion": "ser", "actions": "sampled"}}
HOPPER = {"steps": 1_000_000}
HOPPER_BY: dict[str, dict[str, Any]] = {
    "linear": {},
    "ser": {"utility": "floors", "criterion": "ser"},
    "esr": {"utility": "floors", "criterion": "esr", "gamma": 0.99},
}
SPEED = (0.9, 0.1)
"""The preference that wants speed, above the floor."""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    studies: Annotated[tuple[str, ...], tyro.conf.Positional] = ("treasure", "fishwood", "hopper")
    out: Path = Path("runs/utilities")
    seeds: tuple[int, ...] = (0,)
    episodes: int = 100
    hopper: tuple[str, ...] = field(default=tuple(HOPPER_BY))
    """Which of the runs on Hopper-v2."""
    floor: float = 4000.0
    """Of jump height there."""


def trained(problem: str, out: Path, **settings: Any) -> ucb_moppo.Run:
    """A run, of now or of before."""
    if (out / "config.json").exists():
        return ucb_moppo.resume(out, quiet=True)
    return ucb_moppo.train(problem, out=out, quiet=True, **settings)


def fresh_returns(run: ucb_moppo.Run, policy: Policy, episodes: int) -> NDArray:
    """Returns [episodes, m] of a policy, from initial states that nothing was chosen by."""
    config = load_config(run)
    make = partial(environments_of(config), num_threads=1)
    return run_fresh_episodes(policy, make, episodes, sampled=config.sampled).returns


def study_treasure(options: Options, seed: int) -> None:
    for name, more in (("esr", {"criterion": "esr"}), ("ser", {"criterion": "ser"})):
        out = options.out / f"treasure-{name}-{seed}"
        run = trained("deep-sea-treasure-concave-v0", out, seed=seed, **TREASURE, **more)
        points = run.front().returns
        picked = run.policy((0.5, 0.5), conditioning="evaluated").expected_returns
        worst_off = min(picked[0] / 124, (picked[1] + 19) / 18)
        print(f"treasure {name} seed {seed}: {len(points)} of 10 points; picked {picked}, min {worst_off:.3f}")
    settings = TREASURE | MIXTURE | ONE_PREFERENCE
    run = trained("deep-sea-treasure-concave-v0", options.out / f"treasure-mixture-{seed}", seed=seed, **settings)
    found = fresh_returns(run, run.policy((0.5, 0.5)), 500)
    treasure, time = found.mean(axis=0)
    ends = int(np.isin(found[:, 0], (1, 124)).sum())
    worst_off = min(treasure / 124, (time + 19) / 18)
    print(
        f"treasure sampled seed {seed}: mean ({treasure:.1f}, {time:.1f}), min {worst_off:.3f}; "
        f"{ends} of 500 episodes at the ends"
    )


def study_fishwood(options: Options, seed: int) -> None:
    for name, more in FISHWOOD_BY.items():
        run = trained("fishwood-v0", options.out / f"fishwood-{name}-{seed}", seed=seed, **FISHWOOD | more)
        shared = fresh_returns(run, run.policy((0.5, 0.5)), 500) / (1.0, 2.0)
        by_episode, of_mean = shared.min(axis=1).mean(), shared.mean(axis=0).min()
        print(f"fishwood {name} seed {seed}: mean utility {by_episode:.2f}, utility of the mean {of_mean:.2f}")


def study_hopper(options: Options, seed: int) -> None:
    floor = options.floor
    for name in options.hopper:
        linear = name == "linear"
        place = options.out / (f"hopper-linear-{seed}" if linear else f"hopper-{name}-{floor:g}-{seed}")
        wanted = HOPPER_BY[name] if linear else {**HOPPER_BY[name], "floors": (f"height={floor}",)}
        run = trained("Hopper-v2", place, seed=seed, **HOPPER, **wanted)
        policy = nearest_sum(run, floor) if linear else run.policy(SPEED)
        returns = fresh_returns(run, policy, options.episodes)
        held = int((returns[:, 1] >= floor).sum())
        speed, height = returns.mean(axis=0)
        lacking = np.maximum(floor - returns[:, 1], 0).mean()
        print(
            f"hopper {name} seed {seed} ({policy.weight.round(3)}): the floor of {floor:g} holds in {held} of "
            f"{len(returns)} episodes; mean speed {speed:,.0f}, height {height:,.0f}, lacking {lacking:,.0f}",
            flush=True,
        )


def nearest_sum(run: ucb_moppo.Run, floor: float) -> Policy:
    """The fastest policy of a front whose mean height is above the floor."""
    return run.choose(floors={"height": floor}, most="speed").policy


STUDIES = {"treasure": study_treasure, "fishwood": study_fishwood, "hopper": study_hopper}

if __name__ == "__main__":
    told = tyro.cli(Options)
    for study in told.studies:
        for seed in told.seeds:
            STUDIES[study](told, seed)
