"""Everything that a setting can name, named once: options, help, checks and reports follow from here.

Problems are data, in ``envs``. A name stands for a target, "module:name", which is imported when it is asked for
and not before: help is quick, and reading a run imports nothing. A user's own thing is named by its target, e.g.
``--acquisition my_lab:Crowding``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ucb_moppo.errors import ConfigError, nearest_names, needing


@dataclass(frozen=True)
class Entry:
    """What a name stands for."""

    target: str
    """Where it is, as "module:name"."""
    help: str
    """What it is, in a few words."""
    extra: str = ""
    """The optional install that it needs, if any."""


@dataclass(frozen=True)
class MethodEntry(Entry):
    """A method: ours, which differ in how they choose weights, or another's, which is a learner of its own."""

    ours: bool = True
    published: str = ""
    """Of another's: where the function from a problem's name to its published settings is; it needs no extra."""
    packages: tuple[str, ...] = ()
    """Distributions it is made of, beside ours."""
    resumable: bool = True
    """Whether its runs have checkpoints to continue from."""


@dataclass(frozen=True)
class ExecutorEntry(Entry):
    """A place for work."""

    in_this_process: bool = False
    """Whether work runs right here, one piece after the other."""
    on_a_cluster: bool = False
    """Whether it may run on other machines, which must see the same files."""


EntryType = TypeVar("EntryType", bound=Entry)


class Registry(Generic[EntryType]):
    """The names of one kind of thing."""

    def __init__(self, kind: str, entries: Mapping[str, EntryType], own: bool = False) -> None:
        """``own``: whether a user may name one of their own as module:name."""
        self.kind, self.entries, self.own = kind, dict(entries), own

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def check(self, name: Any, *more: str) -> None:
        """Refuse a name that is neither known, nor one ``more``, nor of the form module:name; imports nothing."""
        if name in self.entries or name in more or (self.own and is_target(name)):
            return
        remedy = nearest_names(str(name), [*self.entries, *more])
        own = "; one of your own is named as module:name" if self.own else ""
        raise ConfigError(f"unknown {self.kind} {name!r}; {remedy}{own}")

    def find(self, name: str) -> Any:
        """What a name stands for, imported now."""
        self.check(name)
        known = self.entries.get(name)
        what = f"{self.kind} {name}"
        return import_target(known.target, what, known.extra) if known else import_target(name, what)

    @property
    def help(self) -> str:
        """All names with what they are."""
        return "; ".join(f"{name}: {entry.help}" for name, entry in self.entries.items())

    @property
    def choices(self) -> str:
        """How help shows what may be given."""
        return "{" + ",".join([*self.entries, *(["module:name"] if self.own else [])]) + "}"


def is_target(name: Any) -> bool:
    """Whether a name is of the form module:name."""
    module, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    return bool(colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split(".")))


def import_target(target: str, what: str, extra: str = "") -> Any:
    """The object at "module:name"; refused with what is missing and how to get it.

    ``extra`` is the optional install of this package that a known target needs. What the module itself raises while
    it is imported is its own fault and stays as it is.
    """
    path, _, name = target.partition(":")
    if extra:
        with needing(what, extra):
            module = importlib.import_module(path)
    else:
        module = import_own(path, what)
    if not hasattr(module, name):
        raise ConfigError(f"{what}: there is no {name} in the module {path}")
    return getattr(module, name)


def import_own(path: str, what: str) -> Any:
    """A module of a user's own, or of ours; refused with where it should have been."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{path}.".startswith(f"{missing.name}."):
            remedy = "is it installed, or its folder on PYTHONPATH?"
        else:
            remedy = f"the module {path} imports it"
        raise ConfigError(f"{what} needs {missing.name}, which is not installed: {remedy}") from missing


_BASELINES = ("morl-baselines", "torch")

# In the order of the paper's table, in which reports list them.
METHODS = Registry(
    "method",
    {
        "ucb": MethodEntry("ucb_moppo.search.methods:ucb", "optimistic hypervolume"),
        "mean": MethodEntry("ucb_moppo.search.methods:mean", "without the uncertainty"),
        "random": MethodEntry("ucb_moppo.search.methods:random", "random weights"),
        "fixed": MethodEntry("ucb_moppo.search.methods:fixed", "pivots only"),
        "pgmorl": MethodEntry(
            "ucb_moppo.peers.morl_baselines:PGMORLPeer",
            "a population of PPO policies, led by predicted gains (morl-baselines)",
            ours=False,
            published="ucb_moppo.peers.published:published_pgmorl",
            packages=_BASELINES,
            resumable=False,
            extra="peers",
        ),
        "pdmorl": MethodEntry(
            "ucb_moppo.peers.pdmorl:PDMORL",
            "one TD3 policy for every preference, with relabelled replay",
            ours=False,
            published="ucb_moppo.peers.pdmorl.pdmorl_settings:published",
        ),
        "capql": MethodEntry(
            "ucb_moppo.peers.morl_baselines:CAPQLPeer",
            "soft actor-critic with a concave term (morl-baselines)",
            ours=False,
            published="ucb_moppo.peers.published:published_capql",
            packages=_BASELINES,
            resumable=False,
            extra="peers",
        ),
        "gpils": MethodEntry(
            "ucb_moppo.peers.morl_baselines:GPILSPeer",
            "TD3 on corner weights, led by generalised policy improvement (morl-baselines)",
            ours=False,
            published="ucb_moppo.peers.published:published_gpils",
            packages=_BASELINES,
            resumable=False,
            extra="peers",
        ),
    },
    own=True,
)

ACQUISITIONS = Registry(
    "acquisition",
    {
        "hypervolume": Entry("ucb_moppo.search.acquisition:HypervolumeScore", "of the front that it joins"),
        "expected_utility": Entry(
            "ucb_moppo.search.acquisition:expected_utility_score", "of that front, over even weights"
        ),
    },
    own=True,
)

SURROGATES = Registry(
    "surrogate",
    {
        "shared_ridge": Entry("ucb_moppo.search.surrogate:shared_ridge", "bagged ridge, of all policies together"),
        "elastic_net": Entry("ucb_moppo.search.surrogate:elastic_net", "the paper's bagged elastic nets"),
        "gaussian_process": Entry("ucb_moppo.search.surrogate:gaussian_process", "of all policies together"),
        "no_change": Entry("ucb_moppo.search.surrogate:no_change", "expects nothing"),
    },
    own=True,
)

SELECTIONS = Registry(
    "selection",
    {
        "focused": Entry(
            "ucb_moppo.search.selection:select_focused", "a quarter where the front grows, the rest spread"
        ),
        "sequential": Entry("ucb_moppo.search.selection:select_sequential", "one at a time, seeing those before"),
        "top_n": Entry("ucb_moppo.search.selection:select_top_n", "score once and take the best N"),
    },
)

UTILITIES = Registry(
    "utility",
    {
        "linear": Entry("ucb_moppo.objectives.utility:make_linear", "the weighted sum"),
        "chebyshev": Entry(
            "ucb_moppo.objectives.utility:make_chebyshev",
            "the objective that is worst off on its way to --ideal (achievement function)",
        ),
        "floors": Entry(
            "ucb_moppo.objectives.utility:make_floors", "the weighted sum above --floors that must hold"
        ),
    },
    own=True,
)

INDICATORS = Registry(
    "indicator",
    {
        "hypervolume": Entry("ucb_moppo.objectives.indicators:hypervolume", "HV"),
        "expected_utility": Entry("ucb_moppo.objectives.indicators:expected_utility", "EU"),
        "sparsity": Entry("ucb_moppo.objectives.indicators:sparsity", "sparsity"),
        "cardinality": Entry("ucb_moppo.objectives.indicators:cardinality", "points on the front"),
    },
    own=True,
)

EXECUTORS = Registry(
    "executor",
    {
        "local": ExecutorEntry(
            "ucb_moppo.runtime.placement:LOCAL", "in this process, one after the other", in_this_process=True
        ),
        "processes": ExecutorEntry("ucb_moppo.runtime.placement:PROCESSES", "in processes of this machine"),
        "ray": ExecutorEntry("ucb_moppo.runtime.placement:RAY", "in a Ray cluster", extra="ray", on_a_cluster=True),
    },
)
