"""A worker holds an object somewhere and makes calls of it. Where it is makes no difference to the bits.

Calls name their method as a function (``worker.begin(Shard.train, weights, 3)``), so that arguments and results are
checked as if the object were here. To another process they go as bytes, functions by the name they are imported by.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from ucb_moppo.errors import ConfigError

Object = TypeVar("Object")
Params = ParamSpec("Params")
Value = TypeVar("Value")


class WorkerLost(Exception):
    """The process that held an object is gone: killed, out of memory, or its machine is."""


@dataclass(frozen=True)
class Call(Generic[Value]):
    """A call that has begun."""

    result: Callable[[], Value]
    """Waits for what the call returned. Raises what it raised, or WorkerLost."""


class Request(NamedTuple):
    """A function and what to call it with."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def perform(self, *first: object) -> Any:
        """Make the call, with ``first`` before its own arguments."""
        return self.function(*first, *self.args, **self.kwargs)

    def pack(self) -> bytes:
        """As bytes, for another process."""
        return pickle.dumps(self)


class Worker(ABC, Generic[Object]):
    """Makes one call at a time: ``begin`` it, then wait for its ``result``."""

    def begin(
        self, method: Callable[Concatenate[Object, Params], Value], *args: Params.args, **kwargs: Params.kwargs
    ) -> Call[Value]:
        """Start a call of the object's ``method``. That the worker is lost is said by the call's result."""
        return Call(self._begin(Request(method, args, kwargs)))

    @abstractmethod
    def _begin(self, request: Request) -> Callable[[], Any]:
        """Start a call of the object; returns how to get its result."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ask the call under way to stop, as Ctrl-C would."""

    @abstractmethod
    def join(self) -> None:
        """Wait until the call under way has ended, or the worker has."""

    @abstractmethod
    def close(self) -> None:
        """End the worker, whatever it is doing."""


def unpack_reply(reply: bytes) -> Any:
    """What a call returned. Raises what it raised."""
    succeeded, value = pickle.loads(reply)
    if not succeeded:
        raise value
    return value


def check_importable(function: Callable[..., Any]) -> None:
    """Refuse what another process cannot find by name, before anything is started."""
    try:
        found = pickle.loads(pickle.dumps(function))
    except Exception as fault:
        raise ConfigError(f"{function!r} cannot be sent to another process: {fault}") from fault
    inner = getattr(found, "func", found)
    if getattr(inner, "__module__", None) == "__main__":
        raise ConfigError(f"{inner!r} belongs to the program itself; put it in a module, which others can import")


# --- in the worker's process -------------------------------------------------------------------------------


class HeldObject:
    """The object of a worker, in the process of its own. If building it fails, every call fails as that did.

    ``path`` is where the process that sends the calls finds modules; what is not there yet is added here.
    """

    def __init__(self, building: bytes, path: Sequence[str] = ()) -> None:
        sys.path += [entry for entry in path if entry not in sys.path]
        self._object, self._broken = attempt(building)

    def answer(self, request: bytes) -> bytes:
        """Make a call with the object as its first argument; the reply says what it returned or raised."""
        value, fault = (None, self._broken) if self._broken else attempt(request, self._object)
        try:
            return pickle.dumps((fault is None, fault or value))
        except (pickle.PicklingError, TypeError, AttributeError) as unsendable:
            return pickle.dumps((False, portable(unsendable)))


def attempt(request: bytes, *first: object) -> tuple[Any, Exception | None]:
    """Make a call, with ``first`` before its own arguments: its value, or what it raised."""
    try:
        return pickle.loads(request).perform(*first), None
    except Exception as fault:
        return None, portable(fault)


def portable(fault: Exception) -> Exception:
    """The exception as another process can raise it, with the traceback from here as a note."""
    text = "".join(traceback.format_exception(fault))
    try:
        copy = pickle.loads(pickle.dumps(fault))
    except Exception:
        copy = RuntimeError(f"{type(fault).__name__}: {fault}")
    copy.add_note(f"in the process of a worker:\n{text}")
    return copy
