"""Mobile users among base stations, by mobile-env, with four objectives instead of one reward.

    ucb-moppo train cells:WirelessSmall-v0     with this folder on PYTHONPATH

At every step it is decided for each user where it belongs: nowhere, at one station, or at all in its reach. Users
walk about, and connections to stations out of reach break. A station divides its band among those it serves; a user
of several stations has the sum of what they give.
"""

from __future__ import annotations

import math
import os
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # mobile-env imports pygame, which greets on the terminal

try:
    from mobile_env.core.base import MComCore
    from mobile_env.core.channels import OkumuraHata
    from mobile_env.core.entities import BaseStation, UserEquipment
    from mobile_env.handlers.central import MComCentralHandler
    from mobile_env.scenarios.medium import MComMedium
    from mobile_env.scenarios.small import MComSmall
except ModuleNotFoundError as fault:
    raise ImportError(
        f"it needs {fault.name}, which is not installed: pip install 'ucb-moppo[wireless]'"
    ) from fault

OBJECTIVES = ("quality", "coverage", "energy", "signalling")
SCENARIOS: dict[str, type[MComCore]] = {"small": MComSmall, "medium": MComMedium}
STEPS = 100
"""How long mobile-env lets an episode be."""
REFERENCE_POINT = (-100.0, 0.0, -100.0, -100.0)
"""Nobody served, every station awake all the same, and as many changes as there are steps."""
FULL_SCALE = 30.0
"""Decibels above or below the least usable signal that observations show as 1 or −1; 9 metres away it is 30."""

Links = frozenset[tuple[int, int]]
"""Who is connected: (station, user)."""


class Cells(gymnasium.Env):
    """One of mobile-env's networks, drawn anew from the seed of each reset.

    Shows for each user which stations it is connected to, how strong it receives each and how well it is served.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own declaration)
    objectives = OBJECTIVES

    def __init__(self, scenario: str = "small", render_mode: str | None = None) -> None:
        if scenario not in SCENARIOS:
            raise ValueError(f"scenario {scenario!r} is not known; choose one of {', '.join(SCENARIOS)}")
        self.scenario, self.render_mode, self._channel = scenario, render_mode, RememberedLoss()
        self.network = self._make_network(0)
        self.action_space = self.network.action_space
        self.observation_space = self.network.observation_space
        stations = float(self.network.NUM_STATIONS)
        # At worst a user loses every connection at once, or takes them all up.
        low, high = np.array([-1, 0, -1, -stations]), np.array([1, 1, 0, 0])
        self.reward_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray, dict[str, Any]]:
        """Start with a new network: mobile-env's own reset does not heed a seed, its making does."""
        super().reset(seed=seed)
        self.network = self._make_network(int(self.np_random.integers(2**31)))
        return self.network.reset()

    def step(self, action: NDArray) -> tuple[NDArray, NDArray, bool, bool, dict[str, Any]]:
        """Change connections, pay the four objectives [4], and let the users walk."""
        return self.network.step(action)

    def render(self) -> NDArray:
        """The map as a picture [height, width, 3]."""
        from pictures import draw_map  # training draws nothing

        return draw_map(self.network)

    def _make_network(self, seed: int) -> MComCore:
        config = {"seed": seed, "handler": FourObjectives(), "channel": lambda **_: self._channel}
        return SCENARIOS[self.scenario](config)


class FourObjectives(MComCentralHandler):
    """mobile-env's one controller of all users, rewarded in four ways; it remembers who was connected."""

    def __init__(self) -> None:
        self._before: Links = frozenset()

    @classmethod
    def action_space(cls, env: MComCore) -> gymnasium.spaces.MultiDiscrete:
        """For each user 0 (nowhere), the number of a station from 1, or one more than there are (all in reach)."""
        return gymnasium.spaces.MultiDiscrete([env.NUM_STATIONS + 2] * env.NUM_USERS)

    @classmethod
    def action(cls, env: MComCore, actions: NDArray) -> dict[int, int]:
        """What mobile-env does to bring each user nearer to where it belongs: take up or drop one connection.

        mobile-env's own actions are these changes. Whoever wants a user to stay must then know not to say so again,
        and learning that takes longer than everything else.
        """
        connected, signals = look(env)
        wanted = belonging(env.NUM_STATIONS)[np.asarray(actions)]
        return dict(zip(sorted(env.users), first_change(wanted, connected, signals).tolist(), strict=True))

    @classmethod
    def observation(cls, env: MComCore) -> NDArray:
        """Connections, signals and utility of one user after the other.

        mobile-env would show signals as shares of the user's strongest, which tell nobody whether one is in reach.
        """
        connected, signals = look(env)
        worst = env.utility.scale(env.utility.lower)
        served = [[env.utilities.get(env.users[number], worst)] for number in sorted(env.users)]
        return np.concatenate([connected, signals, served], axis=1).astype(np.float32).ravel()

    def reward(self, env: MComCore) -> NDArray:
        """[4] mean utility, share of users connected, minus the share of stations that serve anybody, minus the
        connections per user taken up or dropped, whether on purpose or out of reach."""
        now = links(env)
        changes, self._before = len(now ^ self._before), now
        return np.array(
            [
                np.mean(list(env.utilities.values())),
                len({user for _, user in now}) / env.NUM_USERS,
                -len({station for station, _ in now}) / env.NUM_STATIONS,
                -changes / env.NUM_USERS,
            ]
        )


class RememberedLoss(OkumuraHata):
    """mobile-env's channel, which computes the loss over each distance once: half the time went into that.

    All stations and users of a scenario are alike and stand on whole metres, so the distance says all.
    """

    def __init__(self) -> None:
        super().__init__()
        self._losses: dict[int, float] = {}

    def power_loss(self, bs: BaseStation, ue: UserEquipment) -> float:
        """Decibels lost between a station and a user."""
        distance = (int(bs.x) - int(ue.x)) ** 2 + (int(bs.y) - int(ue.y)) ** 2
        if distance not in self._losses:
            self._losses[distance] = float(super().power_loss(bs, ue))
        return self._losses[distance]


def links(network: MComCore) -> Links:
    """Who is connected to whom now."""
    return frozenset((bs.bs_id, ue.ue_id) for bs, users in network.connections.items() for ue in users)


def signal(network: MComCore, station: BaseStation, user: UserEquipment) -> float:
    """How far a signal is above (below) the least that can be used, in [−1, 1]."""
    margin = 10 * math.log10(network.channel.snr(station, user) / user.snr_threshold)
    return min(max(margin / FULL_SCALE, -1.0), 1.0)


def look(network: MComCore) -> tuple[NDArray, NDArray]:
    """Who is connected, and signals, each [users, stations] in the order of their numbers."""
    users = [network.users[number] for number in sorted(network.users)]
    stations = [network.stations[number] for number in sorted(network.stations)]
    connected = [[user in network.connections[station] for station in stations] for user in users]
    signals = [[signal(network, station, user) for station in stations] for user in users]
    return np.array(connected), np.array(signals)


def belonging(num_stations: int) -> NDArray:
    """The stations that each choice means: [stations + 2, stations] of nowhere, each alone, and all."""
    return np.vstack([np.zeros(num_stations), np.eye(num_stations), np.ones(num_stations)]).astype(bool)


def first_change(wanted: NDArray, connected: NDArray, signals: NDArray) -> NDArray:
    """[users] the strongest wanted station that is missing, else the weakest that is too many, else 0.

    Stations are counted from 1; arguments are [users, stations].
    What is out of reach is left alone: it cannot be taken up, and breaks by itself.
    """
    missing, surplus = wanted & ~connected & (signals > 0), connected & ~wanted & (signals > 0)
    order = np.where(missing, 4 + signals, np.where(surplus, 2 - signals, 0))
    return np.where((missing | surplus).any(axis=1), 1 + order.argmax(axis=1), 0)


def read_observation(observation: NDArray, num_users: int) -> tuple[NDArray, NDArray]:
    """Connections and signals, each [users, stations], out of an observation [users · (2 · stations + 1)]."""
    rows = np.asarray(observation).reshape(num_users, -1)
    num_stations = rows.shape[1] // 2
    return rows[:, :num_stations] > 0.5, rows[:, num_stations : 2 * num_stations]


for _name in SCENARIOS:
    gymnasium.register(
        f"Wireless{_name.capitalize()}-v0", Cells, max_episode_steps=STEPS, kwargs={"scenario": _name}
    )
