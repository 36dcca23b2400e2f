"""The true fronts that results of the classics are compared with."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from classics_table import EVERYTHING, clipped_mean, mean_ore, true_front, true_values

from ucb_moppo.envs import make_batch
from ucb_moppo.envs.adapter import make_env
from ucb_moppo.objectives.pareto import nondominated

UP, DOWN, LEFT, RIGHT = range(4)
"""Actions of resource-gathering."""


def truth(problem: str, reference: list[float], discount: float = 1.0, divisions: int = 4) -> tuple[float, float]:
    """Hypervolume and expected utility of a problem's true front."""
    result = {"problem": problem, "reference_point": reference, "evaluation_discount": discount}
    values = true_values(result | {"config": {"utility_divisions": divisions}})
    assert values is not None
    return values


@pytest.mark.parametrize(
    ("problem", "reference", "discount", "volume"),
    [
        ("deep-sea-treasure-v0", [0.0, -50.0], 1.0, 994.3),
        ("deep-sea-treasure-v0", [0.0, -50.0], 0.99, 854.9),
        ("deep-sea-treasure-concave-v0", [0.0, -50.0], 1.0, 4255.0),
        ("fruit-tree-v0@depth=5", [0.0] * 6, 1.0, 8808),
        ("fruit-tree-v0", [0.0] * 6, 1.0, 12576),
        ("fruit-tree-v0@depth=7", [0.0] * 6, 1.0, 17665),
        ("fruit-tree-v0@depth=5", [0.0] * 6, 0.99, 6921),
        ("fruit-tree-v0", [0.0] * 6, 0.99, 9302),
        ("fruit-tree-v0@depth=7", [0.0] * 6, 0.99, 12302),
        ("minecart-deterministic-v0", [-1.0, -1.0, -200.0], 1.0, 945),
        ("minecart-deterministic-v0", [-1.0, -1.0, -200.0], 0.98, 723),
    ],
)
def test_hypervolumes_of_true_fronts(problem, reference, discount, volume):
    digits = 0.05 if volume != int(volume) else 0.5  # as many as are known
    assert truth(problem, reference, discount)[0] == pytest.approx(volume, abs=digits)


def test_expected_utilities_of_true_fronts():
    assert truth("fruit-tree-v0", [0.0] * 6)[1] == pytest.approx(6.150, abs=0.0005)
    # By hand: the weights (0, 1), (½, ½) and (1, 0) choose (0.7, -1), (15.1, -8) or (16.1, -9), and (23.7, -19).
    assert truth("deep-sea-treasure-v0", [0.0, -50.0], divisions=2)[1] == pytest.approx((-1 + 3.55 + 23.7) / 3)


@pytest.mark.parametrize(("depth", "leaves"), [(5, 32), (6, 64), (7, 128)])
def test_every_leaf_of_a_fruit_tree_is_on_its_front(depth, leaves):
    front = true_front(f"fruit-tree-v0@depth={depth}", 1.0)
    assert front is not None
    assert len(front) == nondominated(front).sum() == leaves


# --- what pays everything at once --------------------------------------------------------------------------


def test_values_of_a_front_of_one_point():
    """Boxes from the reference point to (5, 5, 5) and (0, 1, 1); w · (5, 5, 5) is 5, and w₂ + w₃ ⅔ on average."""
    assert truth("four-room-v0", [0.0] * 3) == pytest.approx((125.0, 5.0))
    assert truth("resource-gathering-v0", [-1.0] * 3) == pytest.approx((4.0, 2 / 3))


def test_what_holds_undiscounted_is_not_said_of_discounted_returns():
    assert true_front("four-room-v0", 0.99) is None


def test_gold_and_diamond_are_had_without_meeting_an_enemy():
    way = [RIGHT] * 2 + [UP] * 3 + [DOWN] + [LEFT] * 3 + [UP] * 2 + [RIGHT, LEFT] + [DOWN] * 4 + [RIGHT]
    assert walk("resource-gathering-v0", way).tolist() == EVERYTHING["resource-gathering-v0"][0]


def test_all_shapes_of_four_room_are_had_in_time():
    """From one shape to the nearest that is left, around the goal, which ends the episode and comes last."""
    env = make_env("four-room-v0").unwrapped
    (place,), shapes, way = env.initial, set(env.shape_ids), list[int]()
    while shapes:
        steps = min((shortest_way(env, place, shape, {env.goal}) for shape in shapes), key=len)
        way += [action for action, _ in steps]
        place = steps[-1][1]
        shapes.discard(place)
    way += [action for action, _ in shortest_way(env, place, env.goal, set())]
    assert len(way) <= 200
    assert walk("four-room-v0", way).tolist() == EVERYTHING["four-room-v0"][0]


def shortest_way(env, start, end, avoided) -> list[tuple[int, tuple[int, int]]]:
    """Actions of four-room and the places that they lead to, through anything but walls and what is avoided."""
    moves = {env.LEFT: (0, -1), env.UP: (-1, 0), env.RIGHT: (0, 1), env.DOWN: (1, 0)}
    seen, queue = {start}, deque([(start, list[tuple[int, tuple[int, int]]]())])
    while queue:
        place, way = queue.popleft()
        if place == end:
            return way
        for action, (down, right) in moves.items():
            there = place[0] + down, place[1] + right
            inside = 0 <= there[0] < env.height and 0 <= there[1] < env.width
            if inside and there not in seen | env.occupied | avoided:
                seen.add(there)
                queue.append((there, [*way, (action, there)]))
    raise AssertionError(f"no way from {start} to {end}")


def walk(problem: str, actions: list[int]) -> np.ndarray:
    """The return of an episode, which has to end with the last of the actions."""
    batch = make_batch(problem, 1)
    batch.reset(np.array([0]), [0])
    steps = [batch.step(np.array([action])) for action in actions]
    assert [bool(step.terminated[0]) for step in steps] == [False] * (len(actions) - 1) + [True]
    return np.sum([step.reward[0] for step in steps], axis=0)


# --- minecart's ore ----------------------------------------------------------------------------------------


def test_the_mean_of_a_clipped_normal():
    """Around 0 it is σ φ(0) = 0.3989 σ; far above 0 it is μ; without noise max(0, μ)."""
    means, deviations = np.array([0.0, 0.2, -1.0, 0.3, -0.3]), np.array([0.05, 0.05, 1.0, 0.0, 0.0])
    expected = [0.3989422804 * 0.05, 0.2000003573, 0.0833154706, 0.3, 0.0]
    np.testing.assert_allclose(clipped_mean(means, deviations), expected, rtol=1e-8, atol=0)
    draws = np.random.default_rng(0).normal(means, deviations, (400_000, 5))
    np.testing.assert_allclose(clipped_mean(means, deviations), np.maximum(draws, 0).mean(axis=0), atol=0.002)


def test_mines_yield_what_is_said_of_them():
    env = make_env("minecart-v0").unwrapped
    np.random.seed(0)  # noqa: NPY002  (the mines draw from it)
    for mine in env.mines:
        drawn = np.array([mine.mine() for _ in range(1000)])
        # A standard deviation of 0.05 at most, over the root of 1,000 draws: four times 0.0016.
        np.testing.assert_allclose(mean_ore(mine), drawn.mean(axis=0), atol=0.0064)
    first = [0.2000003573, 0.0199471140]  # where the package says 0.0399 of the second ore
    np.testing.assert_allclose(mean_ore(env.mines[0]), first, rtol=1e-8)


def test_minecarts_front_has_the_ore_that_its_mines_yield():
    """The first mine fills the cart of 1.5 with its two ores in their shares, undiscounted."""
    front = true_front("minecart-v0", 1.0)
    assert front is not None
    richest = front[front[:, 0].argmax()]
    np.testing.assert_allclose(richest[:2], 1.5 * np.array([0.2000003573, 0.0199471140]) / 0.2199474713, rtol=1e-8)
    values = truth("minecart-v0", [-1.0, -1.0, -200.0], discount=0.98, divisions=13)
    assert values == pytest.approx((696.63, 0.28935), rel=1e-4)  # the package's front has 668.18 and 0.26192


def test_a_cart_holds_at_most_a_little_less_than_is_said_of_it():
    """What twelve draws fill a cart with, those that overfill it cut down, is all there is to miss: 1.4%."""
    rng = np.random.default_rng(0)
    for mine in make_env("minecart-v0").unwrapped.mines:
        mean = mean_ore(mine)
        for actions in (1, 2, 3):
            said = 4 * actions * mean / max(1, 4 * actions * mean.sum() / 1.5)
            held = np.zeros((20_000, 2))
            for _ in range(4 * actions):
                means, deviations = np.array([ore.args for ore in mine.distributions]).T
                drawn = np.maximum(0, rng.normal(means, deviations, held.shape))
                room, more = 1.5 - held.sum(axis=1), drawn.sum(axis=1)
                held += drawn * np.where(more > room, room / np.maximum(more, 1e-12), 1)[:, None]
            np.testing.assert_allclose(held.mean(axis=0).sum(), said.sum(), rtol=0.015)
