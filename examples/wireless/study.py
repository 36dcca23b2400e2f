"""Train a network's controllers, measure them against rules of thumb, and recommend three to operate.

    python examples/wireless/study.py

Leaves the run, ``table.md`` and two pictures in ``--out``. A run that is there already is read, not trained again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
from baselines import RULES, fresh_seeds, held_out_seeds, measure_rule, run_episode
from cells import REFERENCE_POINT, SCENARIOS, STEPS, Cells
from numpy.typing import NDArray
from pictures import NAMES, SIGNS, draw_front, draw_operating_points

import ucb_moppo
from ucb_moppo.objectives.pareto import nondominated

BUDGET = {"small": 1_500_000, "medium": 1_000_000}
"""Training steps of each scenario by default."""
ENTROPY = 0.005
"""Of the bonus for randomness: the default is for one choice, and that of a choice per user adds up."""
HELD_OUT, FRESH = 20, 100
"""Episodes that front and rules are measured by, and others that check what is recommended."""
NEARLY_ALL, AT_NIGHT = 0.98, 0.8
"""Shares of the best coverage that the busy hour and the night must keep."""
SHOWN = 12
"""Members of the front in the table."""
MOMENT = 50
"""Step of an episode that is drawn."""
LABELS = ("utility of users", "users connected, %", "stations awake", "changes per user")


@dataclass(frozen=True)
class OperatingPoint:
    """One member of the front to run a network by."""

    name: str
    purpose: str
    row: int
    """Which of the front's members it is."""


# --- choosing ------------------------------------------------------------------------------------------------


def recommend(front: NDArray) -> list[OperatingPoint]:
    """Three members of a front [n, 4] for three situations of a network, by floors and by aspirations."""
    coverage = front[:, 1]
    busy = best_above(front[:, 0], coverage, NEARLY_ALL * coverage.max())
    night = best_above(front[:, 2], coverage, AT_NIGHT * coverage.max())
    kept = "while {:.0%} of the best coverage is kept"
    return [
        OperatingPoint("busy hour", f"best service {kept.format(NEARLY_ALL)}", busy),
        OperatingPoint("everyday", "nearest to the best of all four at once", nearest_to_ideal(front)),
        OperatingPoint("night", f"fewest stations awake {kept.format(AT_NIGHT)}", night),
    ]


def best_above(values: NDArray, guarded: NDArray, floor: float) -> int:
    """The row with the highest value [n] of those whose guarded one [n] does not fall below a floor."""
    return int(np.argmax(np.where(guarded >= floor, values, -np.inf)))


def nearest_to_ideal(front: NDArray) -> int:
    """The row [n, m] whose worst objective, as a share of what the front spans, is best (achievement function)."""
    span = np.ptp(front, axis=0)
    shares = (front - front.min(axis=0)) / np.where(span > 0, span, 1)
    return int(np.argmax(shares.min(axis=1) + 0.05 * shares.mean(axis=1)))


def spread_rows(front: NDArray, first: Sequence[int], count: int) -> list[int]:
    """So many rows of a front [n, m] that lie far from each other, the ``first`` ones among them."""
    span = np.ptp(front, axis=0)
    scaled = front / np.where(span > 0, span, 1)
    rows = list(dict.fromkeys(first))
    while len(rows) < min(count, len(front)):
        gaps = np.linalg.norm(scaled[:, None] - scaled[rows][None], axis=-1).min(axis=1)
        rows.append(int(np.argmax(gaps)))
    return rows


# --- words ---------------------------------------------------------------------------------------------------


def in_units(returns: NDArray, num_stations: int) -> NDArray:
    """Returns [..., 4] as an engineer reads them, up is still better: mean utility, % of users, − stations awake,
    − connection changes per user in an episode."""
    return returns * np.array([1 / STEPS, 100 / STEPS, num_stations / STEPS, 1])


def table_row(name: str, returns: NDArray, num_stations: int, remark: str = "") -> str:
    utility, users, awake, changes = in_units(returns, num_stations) * SIGNS + 0  # no −0
    return f"| {name} | {utility:+.3f} | {users:.1f} | {awake:.2f} | {changes:.1f} | {remark} |"


def make_table(front: NDArray, points: list[OperatingPoint], rules: dict[str, NDArray], num_stations: int) -> str:
    """Rules and members of the front in one table, all of the same episodes."""
    names = {row: " and ".join(p.name for p in points if p.row == row) for row in (p.row for p in points)}
    members = sorted(spread_rows(front, list(names), SHOWN), key=lambda row: front[row, 2])
    head = ["| | " + " | ".join(LABELS) + " | |", "|---|---|---|---|---|---|"]
    beaten = {name: int(dominates(front, value).sum()) for name, value in rules.items()}
    ruled = [
        table_row(name, value, num_stations, f"dominated by {beaten[name]} of the front")
        for name, value in rules.items()
    ]
    found = [table_row(f"front {row}", front[row], num_stations, bold(names.get(row, ""))) for row in members]
    return "\n".join([*head, *ruled, *found])


def bold(words: str) -> str:
    return f"**{words}**" if words else ""


def dominates(front: NDArray, value: NDArray) -> NDArray:
    """Which rows of a front [n, m] are nowhere worse than a value [m] and somewhere better, [n]."""
    return (front >= value).all(axis=1) & (front > value).any(axis=1)


def describe(point: OperatingPoint, returns: NDArray, rule: NDArray, num_stations: int) -> str:
    """What episodes [E, 4] say of a point, and against the rule of the best signal in the same ones [E, 4]."""
    utility, users, awake, changes = in_units(returns.mean(axis=0), num_stations) * SIGNS + 0
    gained = in_units(returns - rule, num_stations)
    error = gained.std(axis=0, ddof=1) / np.sqrt(len(gained))
    by = [f"{mean:+.2f} ± {1.96 * e:.2f}" for mean, e in zip(gained.mean(axis=0) * SIGNS, error, strict=True)]
    return (
        f"{point.name}: {point.purpose}.\n"
        f"  Connects {users:.1f}% of the users at a utility of {utility:+.2f}, keeps {awake:.2f} of {num_stations} "
        f"stations awake, and each user changes connections {changes:.1f} times in {STEPS} steps.\n"
        f"  Against best signal: utility {by[0]}, users {by[1]} points, stations {by[2]}, changes {by[3]}."
    )


# --- doing ---------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Train or read, measure, recommend, draw."""
    given = parse(arguments)
    problem = f"cells:Wireless{given.scenario.capitalize()}-v0"
    run = find_run(problem, given)
    study(run, problem, given.out)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--scenario", choices=SCENARIOS, default="small", help="how large a network")
    parser.add_argument("--steps", type=int, help=f"training steps (default: {BUDGET})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the training")
    parser.add_argument("--out", type=Path, help="where everything goes (default: runs/wireless-SCENARIO)")
    given = parser.parse_args(arguments)
    given.steps = given.steps or BUDGET[given.scenario]
    given.out = given.out or Path("runs") / f"wireless-{given.scenario}"
    return given


def find_run(problem: str, given: argparse.Namespace) -> ucb_moppo.Run:
    """The run in the directory, continued if it was interrupted; a new one where there is none."""
    path = given.out / "run"
    if path.is_dir():
        print(f"reading the run in {path}; name another --out to train anew")
        return ucb_moppo.resume(path)
    return ucb_moppo.train(
        problem,
        steps=given.steps,
        seed=given.seed,
        out=path,
        reference_point=REFERENCE_POINT,
        held_out=HELD_OUT,
        entropy_coefficient=ENTROPY,
    )


def study(run: ucb_moppo.Run, problem: str, out: Path) -> None:
    """Measure what a run has found, print what to make of it, and leave table and pictures in ``out``."""
    env: Cells = gymnasium.make(problem).unwrapped
    stations = env.network.NUM_STATIONS
    rows = np.flatnonzero(run.table()["on_front"] == 1)
    # Chosen by other episodes than it was measured by, a member may turn out worse than another.
    rows = rows[nondominated(run.evaluated().returns[rows])]
    front = run.evaluated().returns[rows]
    seeds = held_out_seeds(run.config["held_out"])
    rules = {name: measure_rule(rule, problem, seeds).mean(axis=0) for name, rule in RULES.items()}
    points = recommend(front)
    table = make_table(front, points, rules, stations)
    print(f"\n{len(seeds)} held-out episodes, {min(SHOWN, len(front))} of {len(front)} members of the front:")
    print(f"\n{table}\n")
    (out / "table.md").write_text(table + "\n", encoding="utf-8")
    policies = {point.name: run.evaluated_policy(int(rows[point.row])) for point in points}
    usual = measure_rule(RULES["best signal"], problem, fresh_seeds(FRESH))
    for point in points:
        returns = np.array([run_episode(env, seed, policies[point.name]) for seed in fresh_seeds(FRESH)])
        print(describe(point, returns, usual, stations) + "\n")
    draw(front, points, policies, rules, problem, out)


def draw(
    front: NDArray,
    points: list[OperatingPoint],
    policies: dict[str, ucb_moppo.Policy],
    rules: dict[str, NDArray],
    problem: str,
    out: Path,
) -> None:
    """Both pictures: the front, and the map of the same users under each operating point."""
    envs: dict[str, Cells] = {name: gymnasium.make(problem).unwrapped for name in policies}
    captions = [captioned(envs[name], policy) for name, policy in policies.items()]
    draw_operating_points({name: env.network for name, env in envs.items()}, captions, out / "operating-points.png")
    stations = envs[points[0].name].network.NUM_STATIONS
    draw_front(
        in_units(front, stations),
        {point.name: in_units(front[point.row], stations) for point in points},
        {name: in_units(value, stations) for name, value in rules.items()},
        LABELS,
        out / "front.png",
    )
    print(f"pictures: {out / 'operating-points.png'}, {out / 'front.png'}")


def captioned(env: Cells, policy: ucb_moppo.Policy) -> str:
    """Bring a network to the moment that is drawn, and say how long each station has been awake until then."""
    observation, _ = env.reset(seed=fresh_seeds(1)[0])
    awake = np.zeros(env.network.NUM_STATIONS)
    for _ in range(MOMENT):
        observation, *_ = env.step(policy(observation))
        awake += [bool(env.network.connections[bs]) for bs in env.network.stations.values()]
    shares = [f"{NAMES[number]} {share:.0%}" for number, share in enumerate(awake / MOMENT)]
    return "awake so far: " + ", ".join(shares)


if __name__ == "__main__":
    main()
