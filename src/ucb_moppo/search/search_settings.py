"""How the simplex is divided and searched: settings as they are given, and what they resolve to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from ucb_moppo.errors import nearest_names, require
from ucb_moppo.registry import ACQUISITIONS, SELECTIONS, SURROGATES

ConfidenceName = Literal["score", "objectives"]
ValueSource = Literal["probes", "simulate"]
LayoutName = Literal["parting", "static"]


@dataclass(frozen=True)
class SearchSettings:
    """How the preference simplex is divided and which weights are trained on.

    A text beside a type says how a setting that is left at None is decided.
    """

    layout: LayoutName = "parting"
    """parting: one policy learns for all weights, then parts into one a sub-space; static: apart from the start."""
    policies: Annotated[int | None, "two per objective"] = None
    """K, sub-spaces of the simplex with a policy each."""
    candidates: Annotated[int | None, "100 for 2 objectives, 117 for more"] = None
    """M, candidate weights in each sub-space."""
    active: Annotated[int | None, "an equal part of 100 environments"] = None
    """N, weights trained on at a time in each sub-space, with one environment each."""
    rollout: int = 50
    """T at most, steps of each environment in an iteration; a short run has fewer."""
    stagger: bool = True
    """Cut the first episode of each environment at another time, so that they do not all begin and end together."""
    samples: Annotated[int | None, "--rollout steps of each environment"] = None
    """Samples per sub-space and iteration, shared by its environments."""
    replicas: int = 1
    """R, independent policies per sub-space, merged into one front."""
    pivots: tuple[tuple[float, ...], ...] | None = None
    """Explicit pivots, one weight per sub-space (default: spread evenly)."""
    stage_iterations: Annotated[int | None, "so that evaluation takes a fifth of training"] = None
    """C, iterations between two evaluations."""
    warmup: Annotated[int | None, "about a quarter of the run, an eighth in a static layout"] = None
    """Q, iterations before the search begins: on weights drawn at random, or in a static layout on the pivots."""
    together: Annotated[int | None, "all of the run"] = None
    """Iterations in which one policy learns for all sub-spaces, before it parts into one for each."""
    resample_iterations: Annotated[int | None, "about an episode, a stage in a static layout"] = None
    """RF, iterations after which a policy that is shared gets other weights, and method `random` draws again."""
    acquisition: Annotated[
        str | None, "hypervolume; expected_utility for more than 3 objectives and for a utility that is not linear"
    ] = None
    """What a candidate is scored by."""
    confidence: ConfidenceName = "score"
    """What the upper confidence bound is taken of: the score, or each objective by itself, as in the paper."""
    surrogate: str = "shared_ridge"
    """What predicts the change that training on a weight brings."""
    selection: str = "focused"
    """How weights are picked by their scores."""
    candidate_values: ValueSource = "probes"
    """Where candidates' values come from: interpolated between probes, or simulating every candidate."""
    probes: Annotated[int | None, "8, fewer where evaluation is dear"] = None
    """P, weights evaluated in each sub-space at every stage; they also make the front."""
    ensemble: int = 10
    """B, members of the bagged surrogate."""
    surrogate_alpha: float = 0.1
    """Strength of the surrogate's elastic-net penalty, on standardised data."""
    surrogate_l1_ratio: float = 0.5
    """Share of the L1 norm in that penalty."""


@dataclass(frozen=True, kw_only=True)
class SearchConfig(SearchSettings):
    """Search settings with nothing left open; without pivots, these are spread evenly."""

    policies: int
    candidates: int
    active: int
    samples: int
    probes: int
    stage_iterations: int
    warmup: int
    together: int
    resample_iterations: int
    acquisition: str


def check_search(search: SearchSettings) -> None:
    """Refuse values that cannot be, whatever the problem is."""
    for name in (
        "policies",
        "candidates",
        "active",
        "rollout",
        "samples",
        "replicas",
        "stage_iterations",
        "probes",
    ):
        value = getattr(search, name)
        require(value is None or value >= 1, f"{name} is {value}; it must be at least 1")
    require(
        0 < search.surrogate_alpha < math.inf and 0 <= search.surrogate_l1_ratio <= 1,
        f"surrogate_alpha is {search.surrogate_alpha} and surrogate_l1_ratio {search.surrogate_l1_ratio}; "
        f"the first must be positive, the second lie in [0, 1]",
    )
    require(search.ensemble >= 2, f"ensemble is {search.ensemble}; the uncertainty needs at least 2 members")
    for name in ("warmup", "together", "resample_iterations"):
        value = getattr(search, name)
        require(value is None or value >= 0, f"{name} is {value}; it must not be negative")
    require(
        search.resample_iterations != 0,
        "resample_iterations is 0; it must be at least 1: leave it out for about an episode",
    )
    for registry in (ACQUISITIONS, SURROGATES, SELECTIONS):
        if getattr(search, registry.kind) is not None:
            registry.check(getattr(search, registry.kind))
    for name, names in (("candidate_values", ValueSource), ("layout", LayoutName), ("confidence", ConfidenceName)):
        known = get_args(names)
        value = getattr(search, name)
        require(value in known, f"unknown {name} {value!r}; {nearest_names(str(value), known)}")
    if search.candidates is not None and search.active is not None:
        require(
            search.active <= search.candidates,
            f"active is {search.active} but each sub-space has only {search.candidates} candidates; "
            f"lower --active or raise --candidates",
        )
    if search.samples is not None and search.active is not None:
        require(
            search.samples % search.active == 0,
            f"samples ({search.samples}) must be a multiple of active ({search.active}), "
            f"so that every environment takes the same number of steps",
        )
