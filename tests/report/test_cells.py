"""Numbers as cells show them."""

import math

from ucb_moppo.report.cells import NONE, format_alike, number


def test_numbers_for_the_eye():
    told = [number(x) for x in (0.0, 12345.678, 3.62e10, -0.00012, 1.0, float("nan"), None)]
    assert told == ["0.000", "12,346", "3.620e10", "-1.200e-4", "1.000", NONE, NONE]


def test_numbers_of_one_cell_share_exponent_and_decimals():
    assert format_alike(8.4e6, 5e5) == ["8.400e6", "0.500e6"]
    assert format_alike(999_000.0, 998_000.0, 1_001_000.0) == ["0.999e6", "0.998e6", "1.001e6"]
    assert format_alike(1326.83, 63.75) == ["1,327", "64"]
    assert format_alike(0.5, 12.345) == ["0.50", "12.35"]
    assert format_alike(0.0, 0.0) == ["0.000", "0.000"]


def test_numbers_beyond_all_others():
    """Neither has an exponent that it could be divided by: ten to the power of −324 is nought."""
    assert number(math.inf) == "inf"
    assert format_alike(-math.inf, 2.0) == ["-inf", "2"]
    assert number(5e-324) == "0.000e-300"
