"""Errors a user can act on: each message names the value and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager


class UcbMoppoError(Exception):
    """Base of every error this package raises on purpose."""


class UcbMoppoWarning(UserWarning):
    """Something went wrong that the run survived: a damaged checkpoint, a policy that diverged."""


class ConfigError(UcbMoppoError, ValueError):
    """A setting, a weight or a problem that cannot be used, found before anything is trained or written."""


class DisagreementError(ConfigError):
    """A run that would be resumed with another config, problem or library version than it was saved with."""


class EnvironmentFault(UcbMoppoError, RuntimeError):
    """An environment that returned something unusable while running (NaN reward, an exception of its own).

    ``environment`` is its row in the batch, where that is known, so that whoever shared the rows out among
    policies can name the policy.
    """

    def __init__(self, message: str, environment: int | None = None) -> None:
        super().__init__(message)
        self.environment = environment


class DivergenceError(UcbMoppoError, RuntimeError):
    """Every policy of a run has diverged, so there is nothing left to train."""


class WorkerLostError(UcbMoppoError, RuntimeError):
    """Processes that hold some of the policies end again and again."""


class RunFormatError(UcbMoppoError, ValueError):
    """A run directory or policy file that cannot be read as one."""


class DamagedFileError(RunFormatError):
    """A file with missing, truncated or changed bytes."""


class UnsafeFileError(RunFormatError):
    """A file that is not read because doing so could hurt: a link, a name that leaves the directory, a bomb."""


class FormatVersionError(RunFormatError):
    """Files of a format version that this version of the package does not read."""


class RunLockedError(UcbMoppoError, RuntimeError):
    """A run directory that another process is writing."""


class StorageError(UcbMoppoError, OSError):
    """A file that could not be written: a full disk, missing permissions."""


class Interrupted(KeyboardInterrupt):
    """A run that was asked to stop (SIGINT, SIGTERM) and has saved a checkpoint to continue from."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> str:
    """A sentence with the names closest to ``name``, for messages about something unknown."""
    known = sorted(known)
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=count, cutoff=0.4)
    close = [match for match in close if likeness(name, match) > likeness(name, close[0]) / 2]
    shown = [by_folded[match] for match in close] or known[:8]
    return ("did you mean " if close else "known: ") + ", ".join(shown) + "?" * bool(close)


def likeness(name: str, other: str) -> float:
    """How alike two names are, 0 to 1."""
    return difflib.SequenceMatcher(None, other.casefold(), name.casefold()).ratio()


def not_installed(what: str, packages: Sequence[str], extra: str, of: str = "ucb-moppo") -> ConfigError:
    """The error of something that needs optional packages, with the one line that installs them."""
    why = f"which {'is' if len(packages) == 1 else 'are'} not installed"
    return ConfigError(f"{what} needs {', '.join(packages)}, {why}: pip install '{of}[{extra}]'")


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Import here what comes with an optional install; if it is missing, the error says how to get it."""
    try:
        yield
    except ModuleNotFoundError as fault:
        raise not_installed(what, [str(fault.name)], extra) from fault
    except ImportError as fault:
        why = f"which does not load ({fault}): pip install 'ucb-moppo[{extra}]'"
        raise ConfigError(f"{what} needs {fault.name or extra}, {why}") from fault


def require(condition: bool, message: str) -> None:
    """Refuse a setting with a ConfigError unless ``condition`` holds."""
    if not condition:
        raise ConfigError(message)
