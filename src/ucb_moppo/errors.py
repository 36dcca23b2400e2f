"""Errors a user can act on: each message names the value and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UcbMoppoError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(UcbMoppoError, ValueError):
    """A setting, a weight or a problem that cannot be used, found before anything is trained or written."""


class EnvironmentFault(UcbMoppoError, RuntimeError):
    """An environment that returned something unusable while running (NaN reward, an exception of its own).

    ``environment`` is its row in the batch, where that is known, so that whoever shared the rows out among
    policies can name the policy.
    """

    def __init__(self, message: str, environment: int | None = None) -> None:
        super().__init__(message)
        self.environment = environment


class RunFormatError(UcbMoppoError, ValueError):
    """A run directory or policy file that cannot be read as one."""


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> str:
    """A sentence with the names closest to ``name``, for messages about something unknown."""
    known = sorted(known)
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=count, cutoff=0.4)
    shown = [by_folded[match] for match in close] or known[:8]
    return ("did you mean " if close else "known: ") + ", ".join(shown) + "?" * bool(close)
