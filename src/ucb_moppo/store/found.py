"""What has been found, on disk or while it is trained: a front, a policy for a preference, a picture."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.objectives.utility import Goal
from ucb_moppo.objectives.weights import check_weights
from ucb_moppo.policy.actors import OBSERVATION_TENSORS
from ucb_moppo.policy.networks import Network
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.front import (
    Front,
    best_row,
    front_from_columns,
    measured_rows,
    measured_values,
    on_front,
    outcomes_from_columns,
)
from ucb_moppo.store.layout import TENSORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Found(ABC):
    """Policies, and a table of what they returned wherever they were evaluated."""

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """The problem that was trained on."""

    @property
    @abstractmethod
    def network(self) -> Network:
        """How the policies' tensors act."""

    @property
    @abstractmethod
    def goal(self) -> Goal:
        """What a preference means: a weighted sum, or another utility."""

    @property
    @abstractmethod
    def summary(self) -> Mapping[str, Any]:
        """What was found and what it cost (``summary.json``)."""

    @abstractmethod
    def table(self) -> dict[str, NDArray]:
        """The columns of ``front.csv``, with a row per evaluated pair."""

    @abstractmethod
    def tensors(self) -> dict[str, NDArray]:
        """Parameters and statistics of all policies, with a leading axis over policies."""

    @property
    @abstractmethod
    def _table_path(self) -> Path:
        """What an error calls the table."""

    def plot_front(self) -> Figure:
        """The front as a matplotlib figure: a panel per pair of objectives, coloured by the weight of the first.

        A notebook shows it; ``figure.savefig("front.png")`` keeps it.
        """
        from ucb_moppo.store.picture import make_figure  # a machine that deploys policies may have no matplotlib

        return make_figure(self)

    def evaluated(self) -> Front:
        """All evaluated pairs, on the front or not."""
        return front_from_columns(self.table(), self._table_path)

    def chosen_by(self) -> Front:
        """The same pairs with the values that the front was chosen by, before it was measured."""
        table = self.table()
        selection = {n.replace("selection", "return"): a for n, a in table.items() if n.startswith("selection_")}
        return front_from_columns(table | selection, self._table_path)

    def front(self) -> Front:
        """The non-dominated pairs: weights, returns and policy index."""
        table = self.table()
        return front_from_columns(table, self._table_path).take(on_front(table))

    def confirmed(self) -> NDArray:
        """[n] which of the front's points no other dominates as they were measured.

        All of them where a preference is no weighted sum: there who is dominated in the mean may serve one best.
        """
        from ucb_moppo.objectives.pareto import nondominated  # a machine that deploys policies may have no moocore

        returns = self.front().returns
        if self.summary.get("utility", "linear") != "linear" or not len(returns):
            return np.ones(len(returns), bool)
        return np.asarray(nondominated(returns))

    def front_errors(self) -> NDArray:
        """[n, m] the standard error of each of the front's returns; NaN where it was measured by what chose it."""
        table, num_objectives = self.table(), self.front().returns.shape[1]
        members = on_front(table)
        unknown = np.full(len(members), np.nan)
        columns = [table.get(f"error_{j}", unknown) for j in range(1, num_objectives + 1)]
        return np.stack(columns, axis=1)[members]

    def policy(self, preference: ArrayLike, conditioning: str = "preference") -> Policy:
        """The policy whose evaluated utility is best for ``preference``, conditioned on it.

        With ``conditioning="evaluated"`` it is conditioned on the evaluated weight that won instead, so that it
        does exactly what ``expected_returns`` says even where another sub-space's policy serves you best.
        """
        if conditioning not in ("preference", "evaluated"):
            raise ConfigError(f"conditioning is {conditioning!r}; choose 'preference' or 'evaluated'")
        weight = check_weights(preference, self.evaluated().weights.shape[1])
        policy = self.evaluated_policy(best_row(self.values(weight)))
        return policy if conditioning == "evaluated" else dataclasses.replace(policy, weight=weight)

    def outcomes(self) -> NDArray:
        """[n, E, m] what the utility of every evaluated pair is taken of: its episodes, or its mean return."""
        return outcomes_from_columns(self.table(), self.chosen_by().returns)

    def values(self, preference: NDArray) -> NDArray:
        """[n] what every evaluated pair is worth for a preference [m].

        Of a finished run whose utility is linear that is what held-out episodes have shown; what nothing but the
        few episodes of a stage speaks for is worth −inf, and would only win by their luck.
        """
        goal = self.goal
        if goal.is_linear:
            return measured_values(self.evaluated().returns, measured_rows(self.table()), preference)
        return goal.values(self.outcomes(), preference[None])

    def evaluated_policy(self, row: int) -> Policy:
        """The policy of one row of ``evaluated()``, conditioned on that row's weight."""
        everything, tensors = self.evaluated(), self.tensors()
        if not 0 <= row < len(everything):
            raise ConfigError(f"row {row} is not one of the {len(everything)} evaluated pairs")
        index = int(everything.policy[row])
        spec = self.spec
        if (
            not 0 <= index < len(tensors[OBSERVATION_TENSORS[0]])
            or everything.weights.shape[1] != spec.num_objectives
        ):
            raise RunFormatError(
                f"{self._table_path} does not fit {TENSORS}: its row {row} is about policy {index} and "
                f"{everything.weights.shape[1]} objectives"
            )
        return Policy(
            spec=spec,
            index=index,
            weight=everything.weights[row],
            expected_returns=everything.returns[row],
            tensors={n: a[index] for n, a in tensors.items() if n.startswith("actor.") or n in OBSERVATION_TENSORS},
            network=self.network,
        )

    @property
    def num_policies(self) -> int:
        """K, how many policies there are."""
        return len(self.tensors()[OBSERVATION_TENSORS[0]])
