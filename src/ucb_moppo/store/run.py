"""Reading a run: what was found, and policies to deploy. Needs neither JAX nor MuJoCo, and executes nothing."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import ValidationError
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.objectives.goal_settings import GoalSettings, check_goal
from ucb_moppo.objectives.utility import Goal, make_goal
from ucb_moppo.objectives.weights import check_weights
from ucb_moppo.policy.actors import OBSERVATION_TENSORS
from ucb_moppo.policy.html import numbers, to_html
from ucb_moppo.policy.networks import Network
from ucb_moppo.policy.policy import Policy
from ucb_moppo.registry import INDICATORS, UTILITIES
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.layout import (
    CONFIG,
    EVALUATIONS,
    FRONT,
    METRICS,
    PROBLEM,
    STAGE,
    SUMMARY,
    TENSORS,
    check_holds_run,
    read_files,
)
from ucb_moppo.store.policy_file import check_actors, load_policy, read_network, read_spec
from ucb_moppo.store.records import check_summary, describe_utility
from ucb_moppo.store.storage import make_digest, parse_columns, parse_object, parse_tensors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ucb_moppo.store.decision import Decision

MAX_INDEX = 2**31
"""No run has so many policies."""


class Front(NamedTuple):
    """Evaluated (policy, weight) pairs, a row each. All objectives are maximised."""

    policy: NDArray  # [n] index of the policy
    weights: NDArray  # [n, m] what it was conditioned on
    returns: NDArray  # [n, m] mean return, where it was measured at held-out initial states, there


class Run:
    """A run on disk: what was found, and policies to deploy.

    What a stage has left is read at once, when any of it is first asked for, and stays as it was then.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.place = Path(os.path.realpath(path))
        """Where the path led when the run was opened, whatever a link on the way leads to later."""
        check_holds_run(self.path)
        self._files: dict[str, bytes] = {}
        self._tensors: dict[str, NDArray] | None = None
        self._digest = ""
        self.config: dict[str, Any] = self._json(CONFIG)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Give what a notebook shows: what was found so far."""
        title = f"Run {self.path}"
        try:
            found = self.summary
            check_summary(found, self.path / SUMMARY)
        except RunFormatError as fault:
            return to_html(title, {"nothing to show": str(fault)})
        return to_html(title, summary_rows(found))

    def plot_front(self) -> Figure:
        """The front as a matplotlib figure: a panel per pair of objectives, coloured by the weight of the first.

        A notebook shows it; ``figure.savefig("front.png")`` keeps it.
        """
        from ucb_moppo.store.picture import make_figure  # a machine that deploys policies may have no matplotlib

        return make_figure(self)

    def _read(self, name: str) -> bytes:
        if name not in self._files:
            self._files |= read_files(self.place, STAGE if name in STAGE else (name,))
        return self._files[name]

    def _json(self, name: str) -> dict[str, Any]:
        return parse_object(self._read(name), self.path / name)

    @property
    def summary(self) -> dict[str, Any]:
        """What was found and what it cost (``summary.json``)."""
        return self._json(SUMMARY)

    @property
    def spec(self) -> EnvSpec:
        """The problem that was trained on."""
        return read_spec(self._json(PROBLEM).get("spec"), self.path / PROBLEM)

    @property
    def network(self) -> Network:
        """How the policies' tensors act."""
        return read_network(self._json(PROBLEM), self.path / PROBLEM)

    def metrics(self) -> list[dict[str, Any]]:
        """A dict per stage, from ``metrics.jsonl``."""
        return [parse_object(line, self.path / METRICS) for line in self._read(METRICS).splitlines()]

    def evaluations(self) -> dict[str, NDArray]:
        """The columns of ``evaluations.csv``, with a row per stage and evaluated pair."""
        return parse_columns(self._read(EVALUATIONS), self.path / EVALUATIONS)

    def table(self) -> dict[str, NDArray]:
        """The columns of ``front.csv``, with a row per evaluated pair."""
        return parse_columns(self._read(FRONT), self.path / FRONT)

    def evaluated(self) -> Front:
        """All evaluated pairs, on the front or not."""
        return front_from_columns(self.table(), self.path / FRONT)

    def chosen_by(self) -> Front:
        """The same pairs with the values that the front was chosen by, before it was measured."""
        table = self.table()
        selection = {n.replace("selection", "return"): a for n, a in table.items() if n.startswith("selection_")}
        return front_from_columns(table | selection, self.path / FRONT)

    def front(self) -> Front:
        """The non-dominated pairs: weights, returns and policy index."""
        table = self.table()
        everything = front_from_columns(table, self.path / FRONT)
        return Front(*(column[on_front(table)] for column in everything))

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

    @property
    def goal(self) -> Goal:
        """What a preference means in this run: a weighted sum, or another utility.

        One of somebody's own is not imported by reading a run: its module must have been imported before.
        """
        return read_goal(self.config, self.spec, self.path / CONFIG)

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

    def choose(
        self,
        *,
        floors: Mapping[str, float] | None = None,
        ceilings: Mapping[str, float] | None = None,
        aspirations: Mapping[str, float] | None = None,
        knee: bool = False,
        most: str = "",
        answers: Sequence[tuple[int, int, str]] = (),
    ) -> Decision:
        """The one policy of the front to deploy, by what must hold and by one way to choose among what is left.

        By name of an objective (a part of it will do), ``floors`` and ``ceilings`` must hold; then what comes
        closest to ``aspirations``, the ``knee`` of the front, who has the ``most`` of an objective, or what
        ``answers`` about two rows each told: (row, row, "first", "second" or "same"). The decision knows what to
        ask next, a short list, and what 100 fresh episodes would do.
        """
        from ucb_moppo.decide.advice import Wishes
        from ucb_moppo.store.decision import decide

        wishes = Wishes(floors or {}, ceilings or {}, aspirations or {}, knee, most)
        for first, second, said in answers:
            wishes = wishes.answer(first, second, said)
        return decide(self, wishes)

    def evaluated_policy(self, row: int) -> Policy:
        """The policy of one row of ``evaluated()``, conditioned on that row's weight."""
        everything, tensors = self.evaluated(), self.tensors()
        if not 0 <= row < len(everything.policy):
            raise ConfigError(f"row {row} is not one of the {len(everything.policy)} evaluated pairs")
        index = int(everything.policy[row])
        spec = self.spec
        if (
            not 0 <= index < len(tensors[OBSERVATION_TENSORS[0]])
            or everything.weights.shape[1] != spec.num_objectives
        ):
            raise RunFormatError(
                f"{self.path / FRONT} does not fit {TENSORS}: its row {row} is about policy {index} and "
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

    def digest(self) -> str:
        """SHA-256 of the policies."""
        self._digest = self._digest or make_digest(self._read(TENSORS)).sha256
        return self._digest

    def tensors(self) -> dict[str, NDArray]:
        """Parameters and statistics of all policies, with a leading axis over policies."""
        if self._tensors is None:
            path, data = self.path / TENSORS, self._read(TENSORS)
            tensors = parse_tensors(data, path)[1]
            if not tensors or len({array.shape[:1] for array in tensors.values()} - {()}) != 1:
                raise RunFormatError(f"{path} does not hold the same number of policies in every array")
            check_actors(self.spec, self.network, tensors, path)
            self._tensors, self._digest = tensors, make_digest(data).sha256
            self._files[TENSORS] = b""  # the arrays hold all of it
        return self._tensors

    @property
    def num_policies(self) -> int:
        """K, how many policies the run holds."""
        return len(self.tensors()[OBSERVATION_TENSORS[0]])


def summary_rows(found: Mapping[str, Any]) -> dict[str, str]:
    """What a summary says, for the eye."""
    ended = f"ended by {found['stopped']}" if found.get("stopped") else "not finished"
    return {
        "problem": f"{found['problem']}: {', '.join(found['objectives'])}",
        "method": f"{found['method']}, seed {found['seed']}",
        **({"utility": describe_utility(found)} if describe_utility(found) else {}),
        "state": "finished" if found["finished"] else ended,
        "training steps": f"{found['training_steps']:,}",
        "policies": f"{found['policies']:,}",
        **{name.replace("_", " "): numbers([found[name]]) for name in INDICATORS if found.get(name) is not None},
    }


def best_row(values: NDArray) -> int:
    """The evaluated pair with the highest of ``values`` [n]; failed evaluations never win."""
    finite = np.isfinite(values)
    if not finite.any():
        raise RunFormatError("no policy of the run has a finite return: nothing can be chosen")
    return int(np.argmax(np.where(finite, values, -np.inf)))


def read_goal(config: Mapping[str, Any], spec: EnvSpec, path: Path) -> Goal:
    """The goal that a run's config describes; runs that are older than goals have a weighted sum."""
    try:
        settings = msgspec.convert(config.get("goal", {}), GoalSettings)
        scales = msgspec.convert(config.get("objective_scales"), tuple[float, ...] | None)
        check_goal(settings)
        if settings.utility not in UTILITIES:
            check_imported(settings.utility)
        return make_goal(settings, spec, scales)
    except ValidationError as fault:
        raise RunFormatError(f"{path} does not describe a utility: {fault}") from fault


def check_imported(target: str) -> None:
    """Refuse a user's own utility whose module nobody has imported: reading a run executes nothing."""
    module = target.partition(":")[0]
    if module not in sys.modules:
        raise ConfigError(
            f"the run's utility is {target}, and reading a run imports nothing: `import {module}` first"
        )


def outcomes_from_columns(columns: Mapping[str, NDArray], returns: NDArray) -> NDArray:
    """[n, E, m] the episodes in a front's table, or [n, 1, m] the mean returns where it has none."""
    num_objectives = returns.shape[1]
    count = sum(name.startswith("episode") and name.endswith("_1") for name in columns)
    names = [f"episode{e}_{j}" for e in range(1, count + 1) for j in range(1, num_objectives + 1)]
    if not names or not set(names) <= set(columns):
        return returns[:, None]
    return np.stack([columns[name] for name in names], axis=1).reshape(len(returns), count, num_objectives)


def measured_rows(columns: Mapping[str, NDArray]) -> NDArray:
    """[n] which rows of a front's table show held-out episodes; all of them before any were."""
    everything = np.ones(len(columns.get("policy", ())), bool)
    errors = [array for name, array in columns.items() if name.startswith("error_")]
    found = np.array([np.isfinite(row).all() for row in zip(*errors, strict=True)], bool)
    return found if found.any() else everything


def measured_values(returns: NDArray, measured: NDArray, preference: NDArray) -> NDArray:
    """[n] the weighted sums of returns [n, m], −inf for those that were not ``measured`` [n]."""
    return np.where(measured, returns @ preference, -np.inf)


def on_front(columns: Mapping[str, NDArray]) -> NDArray:
    """Which rows of a front's table are on the front."""
    return columns["on_front"] == 1 if "on_front" in columns else np.zeros(len(columns.get("policy", ())), bool)


def front_from_columns(columns: Mapping[str, NDArray], path: Path) -> Front:
    """The table of a front or of evaluations, out of ``path``, as a front."""
    num_objectives = sum(name.startswith("weight_") for name in columns) or 2

    def side_by_side(prefix: str) -> NDArray:
        return np.stack([columns[f"{prefix}_{j}"] for j in range(1, num_objectives + 1)], axis=1)

    try:
        policy, weights, returns = columns["policy"], side_by_side("weight"), side_by_side("return")
    except KeyError as missing:
        raise RunFormatError(f"{path} has no column {missing}") from missing
    if not (np.isfinite(weights).all() and (np.abs(policy) < MAX_INDEX).all() and (policy % 1 == 0).all()):
        raise RunFormatError(f"{path} has weights that are not finite, or policies that are not whole numbers")
    if np.isinf(returns).any():  # a run writes NaN for a policy that diverged
        raise RunFormatError(f"{path} has infinite returns")
    return Front(policy.astype(int), weights, returns)


def load(path: str | Path) -> Run | Policy:
    """A run from its directory, or a policy from the file ``Policy.save`` wrote. Executes nothing."""
    path = Path(path)
    if path.is_dir():
        return Run(path)
    if path.is_file():
        return load_policy(path)
    raise RunFormatError(f"{path} does not exist; give a run directory or a policy file")


def load_run(path: str | Path) -> Run:
    """A run from its directory."""
    run = load(path)
    if isinstance(run, Policy):
        raise RunFormatError(f"{path} is a single policy; give the directory of a run")
    return run
