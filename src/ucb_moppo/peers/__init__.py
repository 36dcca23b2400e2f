"""Other methods behind one interface, so that all are trained, counted, evaluated and reported alike.

A peer is imported when it is made: some need ``pip install 'ucb-moppo[peers]'``.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, get_args

from numpy.typing import NDArray

from ucb_moppo.config import MethodName
from ucb_moppo.errors import ConfigError, nearest_names
from ucb_moppo.peers.base import MakeEnvs, Peer, PeerConfig
from ucb_moppo.spec import EnvSpec


class Entry(NamedTuple):
    """Where a peer's parts are, as "module:name"."""

    make: str
    """A `MakePeer`."""
    published: str
    """A function from a problem's name to its published settings, a frozen dataclass instance; needs no extra."""


PEERS = {
    "pgmorl": Entry("ucb_moppo.peers.morl_baselines:PGMORLPeer", "ucb_moppo.peers.published:published_pgmorl"),
    "capql": Entry("ucb_moppo.peers.morl_baselines:CAPQLPeer", "ucb_moppo.peers.published:published_capql"),
    "gpils": Entry("ucb_moppo.peers.morl_baselines:GPILSPeer", "ucb_moppo.peers.published:published_gpils"),
    "pdmorl": Entry("ucb_moppo.peers.pdmorl:PDMORL", "ucb_moppo.peers.pdmorl.settings:published"),
}


class MakePeer(Protocol):
    """Makes a peer for a problem from a config whose every setting is decided.

    ``make_envs(num_envs, num_threads)`` makes its environments; ``weights`` [W, m] are those that a conditioned
    policy is evaluated on. Refuses what ``check`` refuses.
    """

    def check(self, spec: EnvSpec, config: PeerConfig) -> None:
        """Refuse a run that could not be, without making anything."""
        ...

    def __call__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> Peer: ...


def check_method(method: str) -> None:
    """Refuse a method that is neither ours nor a peer."""
    known = (*get_args(MethodName), *PEERS)
    if method not in known:
        raise ConfigError(f"unknown method {method!r}; {nearest_names(method, known)}")


def find_peer(method: str) -> MakePeer:
    """The class of a peer; what it needs and is not installed is found here."""
    make: MakePeer = _find(method, _entry(method).make)
    return make


def make_settings(method: str, problem: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a peer: the published ones for the problem, under those given by name."""
    settings = _find(method, _entry(method).published)(problem.removeprefix("ucb_moppo/"))
    known = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    for name in changes:
        if name not in known:
            raise ConfigError(f"unknown setting {name!r} of {method}; {nearest_names(name, known)}")
    fitting = {name: fit(name, value, known[name]) for name, value in changes.items()}
    return dataclasses.asdict(dataclasses.replace(settings, **fitting))


def fit(name: str, value: Any, like: Any) -> Any:
    """``value`` as the kind of setting that ``like`` is: 1e6 for a count becomes 1000000, a list a tuple."""
    if isinstance(like, tuple) and isinstance(value, (list, tuple)) and value:
        return tuple(fit(name, item, like[0]) for item in value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(like, float) and number:
        return float(value)
    if isinstance(like, int | None) and not isinstance(like, bool) and number and float(value).is_integer():
        return int(value)
    if type(value) is type(like):
        return value
    raise ConfigError(f"{name} is {value!r}; give a value like {like!r}")


def _entry(method: str) -> Entry:
    if method not in PEERS:
        raise ConfigError(f"unknown peer {method!r}; {nearest_names(method, PEERS)}")
    return PEERS[method]


def _find(method: str, place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"method {method} needs {missing.name}, which is not installed: pip install 'ucb-moppo[peers]'"
        ) from missing
