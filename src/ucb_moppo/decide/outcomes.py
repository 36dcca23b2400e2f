"""What there is to choose from: the outcomes of n policies, and the objectives they are told by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError

NOTICEABLE = 0.02
"""Of what the front spans in an objective: who sees less of a difference cannot be asked about it."""
NUM_ERRORS = 2.0
"""Standard errors by which two means must differ before they are called different."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Mean returns of n policies in m objectives."""

    objectives: tuple[str, ...]
    returns: NDArray
    """[n, m]"""
    rows: NDArray
    """[n] what each is called by those who ask: its row in the run's table."""
    errors: NDArray | None = None
    """[n, m] standard errors of the returns; None where nobody knows them."""

    def __post_init__(self) -> None:
        if not len(self.returns) or not np.isfinite(self.returns).all():
            raise ConfigError("there is no policy with finite returns to choose from; train one first")

    def __len__(self) -> int:
        return len(self.returns)

    @cached_property
    def worst(self) -> NDArray:
        """[m] the least of each objective."""
        return np.asarray(self.returns.min(axis=0))

    @cached_property
    def best(self) -> NDArray:
        """[m] the most of each objective, which no policy need have all of."""
        return np.asarray(self.returns.max(axis=0))

    @cached_property
    def span(self) -> NDArray:
        """[m] between the two; 1 where all policies return the same."""
        span = self.best - self.worst
        return np.where(span > 0, span, 1.0)

    @cached_property
    def scaled(self) -> NDArray:
        """[n, m] returns with the worst of each objective at 0 and the best at 1."""
        return self.scale(self.returns)

    def scale(self, values: NDArray) -> NDArray:
        """``values`` [..., m] on the scale where the worst of each objective is 0 and the best is 1."""
        return np.asarray((values - self.worst) / self.span)

    def differ(self, first: NDArray | int, second: NDArray | int) -> NDArray:
        """[..., m] in which objectives the one is noticeably, and not by chance alone, away from the other."""
        enough = NOTICEABLE * self.span
        if self.errors is not None:
            known = np.nan_to_num(self.errors)
            enough = np.maximum(enough, NUM_ERRORS * np.hypot(known[first], known[second]))
        gap = np.abs(self.returns[first] - self.returns[second])
        return np.asarray((gap >= enough) & (gap > 0))

    def index_of(self, row: int) -> int:
        """Where the policy that is called ``row`` stands."""
        found = np.flatnonzero(self.rows == row)
        if not len(found):
            known = ", ".join(str(known) for known in self.rows[:12]) + (", …" if len(self) > 12 else "")
            raise ConfigError(f"row {row} is not on the front; its rows are {known}")
        return int(found[0])
