"""A loop that calls back, as an iterator: for methods whose own training loop cannot be left and entered again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import TypeVar

News = TypeVar("News")


class LoopEnded(BaseException):
    """Raised inside a loop whose iterator was closed; not an Exception, which the loop might catch."""


def iterate_loop(loop: Callable[[Callable[[News], None]], None]) -> Generator[News, None, None]:
    """Yield whatever ``loop`` passes to its callback; closing the iterator ends the loop at its next call.

    The loop has a thread of its own, but never runs beside its reader: one always waits for the other, which
    costs a little at every call.
    """
    news: SimpleQueue[tuple[bool, News | None, BaseException | None]] = SimpleQueue()
    turns: SimpleQueue[bool] = SimpleQueue()

    def tell(item: News) -> None:
        news.put((True, item, None))
        if not turns.get():
            raise LoopEnded

    def run() -> None:
        fault: BaseException | None = None
        try:
            if turns.get():
                loop(tell)
        except LoopEnded:
            pass
        except BaseException as raised:
            fault = raised
        news.put((False, None, fault))

    thread = threading.Thread(target=run, name="peer", daemon=True)
    thread.start()
    try:
        while True:
            turns.put(True)
            goes_on, item, fault = news.get()
            if fault is not None:
                raise fault
            if not goes_on:
                return
            yield item  # type: ignore[misc]
    finally:
        turns.put(False)
        thread.join()
