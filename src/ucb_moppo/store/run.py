"""Reading a run: what was found, and policies to deploy. Needs neither JAX nor MuJoCo, and executes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import ValidationError
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.objectives.goal_settings import GoalSettings, check_goal
from ucb_moppo.objectives.utility import Goal, make_goal
from ucb_moppo.policy.html import numbers, to_html
from ucb_moppo.policy.networks import Network
from ucb_moppo.policy.policy import Policy
from ucb_moppo.registry import INDICATORS, UTILITIES
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.found import Found
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
    expand_home,
    read_files,
)
from ucb_moppo.store.policy_file import check_actors, load_policy, read_network, read_spec
from ucb_moppo.store.records import check_summary, describe_utility
from ucb_moppo.store.storage import make_digest, parse_columns, parse_object, parse_tensors

if TYPE_CHECKING:
    from ucb_moppo.store.decision import Decision


class Run(Found):
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
        try:
            told = ", ".join(f"{name}={value!r}" for name, value in self._identify().items())
        except RunFormatError as fault:
            return f"Run({str(self.path)!r}), of which there is nothing to show: {fault}"
        return f"Run({str(self.path)!r}, {told})"

    def _identify(self) -> dict[str, Any]:
        """Which run it is and how much it has found."""
        found = self.summary
        check_summary(found, self.path / SUMMARY)
        named = {name: found[name] for name in ("problem", "method", "seed", "policies")}
        return named | {"points": len(self.front())}

    def _repr_html_(self) -> str:
        """Give what a notebook shows: what was found so far."""
        title = f"Run {self.path}"
        try:
            found = self.summary
            check_summary(found, self.path / SUMMARY)
        except RunFormatError as fault:
            return to_html(title, {"nothing to show": str(fault)})
        return to_html(title, summary_rows(found))

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

    @property
    def _table_path(self) -> Path:
        return self.path / FRONT

    @property
    def goal(self) -> Goal:
        """What a preference means in this run: a weighted sum, or another utility.

        One of somebody's own is not imported by reading a run: its module must have been imported before.
        """
        return read_goal(self.config, self.spec, self.path / CONFIG)

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


def load(path: str | Path) -> Run | Policy:
    """A run from its directory, or a policy from the file ``Policy.save`` wrote. Executes nothing.

    ``~`` is your home folder, as a shell has it.
    """
    return open_path(expand_home(path))


def open_path(path: Path) -> Run | Policy:
    """What is at a path as it stands, which a shell may have given: no ``~`` is meant by it any more."""
    if path.is_dir():
        return Run(path)
    if path.is_file():
        return load_policy(path)
    raise RunFormatError(f"{path} does not exist; give a run directory or a policy file")


def load_run(path: str | Path) -> Run:
    """A run from its directory."""
    run = open_path(Path(path))
    if isinstance(run, Policy):
        raise RunFormatError(f"{path} is a single policy; give the directory of a run")
    return run
