"""What stands in the cells of a table: numbers rounded for the eye, and which of them are the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ucb_moppo.report.statistics import Estimate

NONE = "–"


def number(value: float | None, digits: int = 4) -> str:
    """Four significant digits with thousands apart; very large and very small ones with an exponent."""
    if value is None or math.isnan(value):
        return NONE
    if digits == 0 or isinstance(value, int):
        return f"{value:,.0f}"
    return format_alike(value, digits=digits)[0]


def number_with_error(value: float | None, error: float | None) -> str:
    """A number, or an estimate with its standard error: ≈ 5.600e6 ± 0.012e6."""
    return number(value) if value is None or not error else "≈ " + " ± ".join(format_alike(value, error))


def format_alike(*values: float, digits: int = 4) -> list[str]:
    """Numbers of one cell, all with the exponent and the decimals of the largest: 8.400e6 and 0.500e6."""
    largest = max(map(abs, values))
    if math.isinf(largest):
        return [f"{value:.{digits}g}" for value in values]
    if largest and not 1e-3 <= largest < 1e6:
        exponent = max(-300, int(f"{largest:.{digits - 1}e}".split("e")[1]))  # ten to a lower power is nought
        return [f"{value / 10.0**exponent:.{digits - 1}f}e{exponent}" for value in values]
    decimals = max(0, digits - len(str(int(largest))))
    return [f"{value:,.{decimals}f}" for value in values]


def mean_and_std(one: Estimate) -> str:
    return plus_minus(one.mean, one.std)


def plus_minus(mean: float | None, std: float | None) -> str:
    """What is unknown, None or NaN, is left out."""
    return number(mean) if mean is None or std is None or math.isnan(std) else " ± ".join(format_alike(mean, std))


def iqm_and_interval(one: Estimate) -> str:
    if math.isnan(one.low):
        return number(one.iqm)
    middle, low, high = format_alike(one.iqm, one.low, one.high)
    return f"{middle} [{low}, {high}]"


def best_cells(means: Sequence[float]) -> list[int]:
    """Where the highest of several numbers stands; nowhere if there is nothing to compare it with."""
    finite = [mean for mean in means if not math.isnan(mean)]
    return [i for i, mean in enumerate(means) if mean == max(finite)] if len(finite) > 1 else []
