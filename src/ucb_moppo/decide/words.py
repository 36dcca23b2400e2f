"""Outcomes in words: what one gets, and what one gets instead."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import NDArray


def describe_difference(current: NDArray, other: NDArray, objectives: Sequence[str]) -> str:
    """What one gets there instead: 2% less speed, 9% more energy."""
    return ", ".join(
        f"{_amount(here, there)} {name}" for here, there, name in zip(current, other, objectives, strict=True)
    )


def _amount(here: float, there: float) -> str:
    change = there - here
    if change == 0:
        return "the same"
    # Returns below zero count a cost (time, fuel): "more" of them could mean either.
    words = ("better", "worse") if here < 0 else ("more", "less")
    word = words[0] if change > 0 else words[1]
    # A share of next to nothing says nothing.
    if abs(here) < 1e-9 or abs(change / here) > 10:
        return f"{abs(change):.4g} {word}"
    share = abs(change / here) * 100
    return f"{share:.0f}% {word}" if share >= 0.95 else f"{share:.1g}% {word}"


def describe_outcome(returns: NDArray, objectives: Sequence[str]) -> str:
    """What one gets: speed 2,653, energy 4,606."""
    return ", ".join(f"{name} {in_short(value)}" for name, value in zip(objectives, returns, strict=True))


def in_short(value: float) -> str:
    """Four digits, or all of a larger whole number: 0.1235, 12.35, 2,653, 123,457."""
    if abs(value) >= 1e9 or 0 < abs(value) < 1e-4:
        return f"{value:.3e}"
    decimals = next((d for d, above in ((0, 1000), (1, 100), (2, 10), (3, 1)) if abs(value) >= above), 4)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
