"""Scales of objectives, from returns made up and from random actions."""

from __future__ import annotations

import numpy as np
import pytest

from ucb_moppo.envs import measure_scales
from ucb_moppo.envs.scales import find_scales

SIGNS = np.array([[1.0], [-1.0]])


def test_scales_are_what_returns_vary_by() -> None:
    """Returns 5 ± 0.2, ± 30 and ± 1.234: standard deviations 0.2, 30 and 1.234, to two digits."""
    assert find_scales(5 + SIGNS * [0.2, 30.0, 1.234]) == (0.2, 30.0, 1.2)


def test_objectives_of_about_the_same_size_are_left_as_they_are() -> None:
    assert find_scales(SIGNS * [1.0, 9.9]) == (1.0, 1.0)
    assert find_scales(SIGNS * [1.0, 10.0]) == (1.0, 10.0)


def test_what_never_changes_or_is_no_number_tells_nothing() -> None:
    assert find_scales(np.zeros((4, 3))) == (1.0, 1.0, 1.0)
    assert find_scales(SIGNS * [0.0, 5.0]) == (1.0, 1.0)
    assert find_scales(SIGNS * [0.0, 0.5, 50.0]) == (50.0, 0.5, 50.0)
    assert find_scales(np.full((3, 2), np.nan)) == (1.0, 1.0)
    assert find_scales(np.vstack([SIGNS * [1.0, 20.0], [[np.nan, 1.0]]])) == (1.0, 20.0)


def test_minecart_measures_fuel_in_other_units_than_ore() -> None:
    """Random driving burns some tens of times as much fuel as it brings ore; the same every time."""
    first, second, fuel = found = measure_scales("minecart-v0")
    assert fuel > 10 * min(first, second)
    assert measure_scales("minecart-v0") == found


@pytest.mark.parametrize("problem", ["fruit-tree-v0", "deep-sea-treasure-v0"])
def test_most_problems_are_left_as_they_are(problem: str) -> None:
    assert set(measure_scales(problem)) == {1.0}


def test_native_problems_are_weighed_as_published() -> None:
    assert measure_scales("Hopper-v2") is None
    assert measure_scales("mo-hopper-v5") is None
