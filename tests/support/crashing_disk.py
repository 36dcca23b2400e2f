"""A file system that stops answering at a call of one's choice, as it does for a process that is killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CALLS = ("open", "write", "fsync", "ftruncate", "mkdir", "rename", "replace", "unlink", "rmdir")


class Crash(BaseException):
    """The process is gone: no handler of errors runs."""


@contextmanager
def failing(
    monkeypatch: pytest.MonkeyPatch, at: int, fault: Callable[[], BaseException] = Crash
) -> Iterator[list[str]]:
    """The ``at``-th call to the file system fails, and every one after it. Yields the calls that were made."""
    made: list[str] = []

    def wrap(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            if len(made) > at and (name != "open" or args[1] & os.O_CREAT):
                raise fault()
            return call(*args, **kwargs)

        return wrapped

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, wrap(name, getattr(os, name)))
        yield made
