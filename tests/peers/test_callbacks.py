"""A loop that calls back, read as an iterator: order, faults, and that closing it ends the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ucb_moppo.peers.callbacks import iterate_loop


def test_news_come_in_order_and_the_loop_waits_for_its_reader() -> None:
    """Both sides write into one list: each step of the loop stands before the reader's look at it."""
    happened: list[str] = []

    def loop(tell: Callable[[int], None]) -> None:
        for number in range(3):
            happened.append(f"step {number}")
            tell(number)
        happened.append("end")

    for number in iterate_loop(loop):
        happened.append(f"look {number}")
    assert happened == ["step 0", "look 0", "step 1", "look 1", "step 2", "look 2", "end"]


def test_nothing_runs_before_it_is_asked_for() -> None:
    begun: list[bool] = []
    news = iterate_loop(lambda tell: begun.append(True))
    assert not begun
    assert list(news) == []
    assert begun == [True]


def test_a_fault_of_the_loop_reaches_the_reader() -> None:
    def loop(tell: Callable[[int], None]) -> None:
        tell(1)
        raise ValueError("the loop broke")

    news = iterate_loop(loop)
    assert next(news) == 1
    with pytest.raises(ValueError, match="the loop broke"):
        next(news)


def test_closing_ends_a_loop_that_would_never_end_and_swallows_exceptions() -> None:
    """The loop catches every Exception, cleans up behind itself, and its thread is gone afterwards."""
    cleaned: list[bool] = []

    def loop(tell: Callable[[int], None]) -> None:
        number = 0
        try:
            while True:
                number += 1
                try:
                    tell(number)
                except Exception:
                    pytest.fail("not for the loop to catch")
        finally:
            cleaned.append(True)

    before = threading.active_count()
    news = iterate_loop(loop)
    assert [next(news), next(news)] == [1, 2]
    news.close()
    assert cleaned == [True]
    assert threading.active_count() == before
