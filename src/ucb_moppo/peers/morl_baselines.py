"""PGMORL, CAPQL and GPI-LS through the package morl-baselines; ``pip install 'ucb-moppo[peers]'``.

Each adapter makes the package's own agent, counts every step it takes in an environment, and translates its
actors into named tensors. docs/peers.md lists where this departs from the methods as published.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from morl_baselines.common.pareto import ParetoArchive
from morl_baselines.multi_policy.capql.capql import CAPQL
from morl_baselines.multi_policy.gpi_pd.gpi_pd_continuous_action import GPILSContinuousAction
from morl_baselines.multi_policy.pgmorl.pgmorl import PGMORL, generate_weights
from numpy.typing import NDArray

from ucb_moppo.config import PeerConfig
from ucb_moppo.cores import available_cores
from ucb_moppo.engine.environments import MakeEnvs
from ucb_moppo.engine.learner import Snapshot
from ucb_moppo.errors import ConfigError
from ucb_moppo.peers.base import Counts
from ucb_moppo.peers.callbacks import iterate_loop
from ucb_moppo.peers.counting import CountedEnv, Counter, Purpose, check_action
from ucb_moppo.peers.published import CAPQLSettings, GPILSSettings, PGMORLSettings
from ucb_moppo.policy.networks import Network
from ucb_moppo.policy.normaliser import Statistics, init_statistics
from ucb_moppo.spec import EnvSpec

TRAINING_STREAM, EVALUATION_STREAM = 0, 1
MIN_TASKS = 4
"""What PGMORL's prediction of improvements needs as neighbours, from the first generation on."""
FEW_LOGGED = {"num_eval_weights_for_front": 5}
"""Weights of the evaluations for the package's log, which is off; spreading its 100 takes seconds all the same."""
VARIANCE_FLOOR = 1e-8
"""What Gymnasium's NormalizeObservation adds to the variance."""


class TorchPeer:
    """What the three have in common: seeds, threads, counted environments, silence."""

    @staticmethod
    def check(spec: EnvSpec, config: PeerConfig) -> None:
        """Refuse choices for actions."""
        check_action(spec)

    def __init__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> None:
        self.check(spec, config)
        self.spec, self.config, self.make_envs, self.weights = spec, config, make_envs, weights
        self.counter = Counter()
        self.reference_point = np.array(spec.reference_point)
        torch.set_num_threads(config.threads or len(available_cores()))
        # The package draws from all three, and from generators of its own that it seeds itself.
        random.seed(config.seed)
        np.random.seed(config.seed)  # noqa: NPY002
        torch.manual_seed(config.seed)

    def make_env(self, purpose: Purpose, number: int = 0) -> CountedEnv:
        """One environment, counted for a purpose; ``number`` tells it from others of the same."""
        stream = EVALUATION_STREAM if purpose == "evaluation" else TRAINING_STREAM
        return CountedEnv(self.make_envs(1, 1), self.counter, purpose, (self.config.seed, stream, number))

    def train(self) -> Generator[Counts, None, None]:
        """Train to the end; the package's loop cannot be left, so it has a thread of its own."""
        return iterate_loop(self._run_counted)

    def _run_counted(self, on_steps: Callable[[Counts], None]) -> None:
        shown = sys.stdout

        def tell(counts: Counts) -> None:
            with contextlib.redirect_stdout(shown):  # whoever is told runs meanwhile, and may print
                on_steps(counts)

        self.counter.on_steps = tell
        with quiet():
            self.run()

    def run(self) -> None:
        raise NotImplementedError


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the package's prints and its dependencies' notices off the terminal."""
    nowhere = open(os.devnull, "w")  # noqa: SIM115  (in the statement below)
    with nowhere, contextlib.redirect_stdout(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class ConditionedPeer(TorchPeer):
    """One squashed actor conditioned on the weight."""

    agent: Any

    def snapshot(self) -> Snapshot:
        actor = self.agent.policy
        layers = [m for m in actor.latent_pi if isinstance(m, torch.nn.Linear)]
        network = Network("relu", len(layers), conditioned=True, residual=False, squash=True)
        tensors = name_layers([*layers, actor.mean]) | name_statistics(init_statistics(self.spec.observation_size))
        modules = [actor, *self.agent.q_nets]
        return Snapshot(
            {name: array[None] for name, array in tensors.items()}, network, self.weights[None], count(modules)
        )


class CAPQLPeer(ConditionedPeer):
    """CAPQL: soft actor-critic with a concave augmentation; weights drawn anew at every step."""

    def __init__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> None:
        super().__init__(spec, config, make_envs, weights)
        settings = vars(CAPQLSettings(**config.settings)) | {"net_arch": list(config.settings["net_arch"])}
        self.agent = CAPQL(self.make_env("training"), **settings, log=False, seed=config.seed, device="cpu")

    def run(self) -> None:
        # Without a log it never evaluates, so it needs no environment for that.
        self.agent.train(self.config.steps, None, self.reference_point, **FEW_LOGGED)


class GPILSPeer(ConditionedPeer):
    """GPI-LS: TD3 on weights from the corners of the set found so far, chosen by what GPI promises there."""

    def __init__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> None:
        super().__init__(spec, config, make_envs, weights)
        settings = vars(GPILSSettings(**config.settings)) | {"net_arch": list(config.settings["net_arch"])}
        per_iteration = min(settings.pop("timesteps_per_iter"), config.steps)
        self.search = {
            "timesteps_per_iter": per_iteration,
            "num_eval_episodes_for_front": settings.pop("num_eval_episodes_for_front"),
        }
        # Whole iterations only: one more than the budget holds, which ends the run inside it.
        self.total = (config.steps // per_iteration + 1) * per_iteration
        self.agent = GPILSContinuousAction(
            self.make_env("training"), **settings, log=False, seed=config.seed, device="cpu"
        )

    def run(self) -> None:
        self.agent.train(
            self.total,
            self.make_env("evaluation"),
            self.reference_point,
            checkpoints=False,
            **FEW_LOGGED,
            **self.search,
        )


class PGMORLPeer(TorchPeer):
    """PGMORL: a population of PPO policies, each trained on the weight for which the model predicts most."""

    @staticmethod
    def check(spec: EnvSpec, config: PeerConfig) -> None:
        """Refuse choices for actions, more objectives than it knows, and more or fewer tasks than it can have."""
        TorchPeer.check(spec, config)
        if spec.num_objectives > 3:
            raise ConfigError(f"{spec.name} has {spec.num_objectives} objectives; PGMORL knows only two or three")
        count_tasks(PGMORLSettings(**config.settings), spec.num_objectives)

    def __init__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> None:
        super().__init__(spec, config, make_envs, weights)
        self.settings, self._numbers = PGMORLSettings(**config.settings), itertools.count()
        self.archive = Archive(self.pooled_statistics)
        self.agent = self._make_agent()
        self.agent.archive = self.archive

    def _make_agent(self) -> Any:
        own = vars(self.settings) | {"net_arch": list(self.settings.net_arch), "pop_size": self.num_tasks()}
        for name in ("task_steps", "scale_to_budget"):
            own.pop(name)
        own["warmup_iterations"], own["evolutionary_iterations"] = self.schedule()
        with quiet(), registered(self._next_env) as env_id:
            return BudgetedPGMORL(
                self.iterations, env_id, self.reference_point, **own, log=False, seed=self.config.seed, device="cpu"
            )

    def _next_env(self, **_: Any) -> CountedEnv:
        return self.make_env("training", next(self._numbers))

    def num_tasks(self) -> int:
        return count_tasks(self.settings, self.spec.num_objectives)

    def schedule(self) -> tuple[int, int]:
        """Iterations of the warm-up and of a generation, in a short run their published share of it."""
        settings = self.settings
        published = settings.task_steps * self.num_tasks()
        share = min(1.0, self.config.steps / published) if settings.scale_to_budget else 1.0
        lengths = (settings.warmup_iterations, settings.evolutionary_iterations)
        return tuple(max(1, round(share * length)) for length in lengths)  # type: ignore[return-value]

    def run(self) -> None:
        env = NormalisedLike(self.make_env("evaluation"), self.pooled_statistics)
        # It counts calls, and ends with a whole iteration. A call after the end of an episode only resets, but each
        # such follows a step: twice the budget and an iteration is enough, and the budget ends the run.
        self.agent.train(2 * self.config.steps + self.steps_per_round(), env, self.reference_point)

    def steps_per_round(self) -> int:
        """Of one iteration of all tasks."""
        return self.settings.num_envs * self.settings.steps_per_iteration * self.num_tasks()

    def iterations(self) -> tuple[float, int]:
        """How many of how many are over, by the steps that were taken."""
        per_round = self.steps_per_round()
        return self.counter.counts.training / per_round, self.config.steps // per_round + 1

    def pooled_statistics(self) -> Statistics:
        """Of the observations in all training environments together; the package keeps them apart."""
        return pool_statistics([find_normaliser(env) for env in self.agent.env.envs])

    def snapshot(self) -> Snapshot:
        """The archive, and the policies in training that are not in it."""
        now = self.pooled_statistics()
        kept = list(zip(self.archive.individuals, self.archive.statistics, strict=True))
        found: dict[bytes, tuple[Any, dict[str, NDArray]]] = {}
        for agent, statistics in [*kept, *((agent, now) for agent in self.agent.agents)]:
            tensors = name_actor(agent.networks)
            fingerprint = b"".join(array.tobytes() for array in tensors.values())
            found.setdefault(fingerprint, (agent, tensors | name_statistics(statistics)))
        agents, named = zip(*found.values(), strict=True)
        network = Network("tanh", len(self.settings.net_arch), conditioned=False, residual=False)
        weights = np.stack([agent.weights.numpy().astype(np.float64) for agent in agents])
        return Snapshot(
            {name: np.stack([tensors[name] for tensors in named]) for name in named[0]},
            network,
            (weights / weights.sum(1, keepdims=True))[:, None],
            count([agent.networks for agent in agents]),
        )


def count_tasks(settings: PGMORLSettings, num_objectives: int) -> int:
    """As asked, or one per weight of the lattice."""
    lattice = len(generate_weights(settings.delta_weight, num_objectives))
    tasks = settings.pop_size or lattice
    if not MIN_TASKS <= tasks <= lattice:
        raise ConfigError(
            f"PGMORL would train {tasks} tasks; it needs {MIN_TASKS} at least, and delta_weight "
            f"{settings.delta_weight} gives {lattice} weights: change pop_size or delta_weight"
        )
    return tasks


class BudgetedPGMORL(PGMORL):
    """Where it anneals the learning rate, it does so over the budget, not over what it was asked for."""

    def __init__(self, iterations: Callable[[], tuple[float, int]], *args: Any, **options: Any) -> None:
        self._iterations = iterations
        super().__init__(*args, **options)

    def _PGMORL__train_all_agents(self, iteration: int, max_iterations: int) -> None:
        done, planned = self._iterations()
        super()._PGMORL__train_all_agents(iteration=done, max_iterations=planned)


class Archive(ParetoArchive):
    """Remembers the observation statistics that each policy had when it came in."""

    def __init__(self, statistics_now: Callable[[], Statistics]) -> None:
        super().__init__()
        self._statistics_now = statistics_now
        self._kept: list[tuple[Any, Statistics]] = []

    def add(self, candidate: Any, evaluation: NDArray) -> None:
        super().add(candidate, evaluation)
        known = {id(agent) for agent, _ in self._kept}
        now = self._statistics_now()
        self._kept += [(agent, now) for agent in self.individuals if id(agent) not in known]
        staying = {id(agent) for agent in self.individuals}
        self._kept = [pair for pair in self._kept if id(pair[0]) in staying]

    @property
    def statistics(self) -> list[Statistics]:
        """In the order of ``individuals``."""
        by_agent = {id(agent): statistics for agent, statistics in self._kept}
        return [by_agent[id(agent)] for agent in self.individuals]


class NormalisedLike(gymnasium.ObservationWrapper):
    """Shows observations [d] as the training environments would now, without learning from them."""

    def __init__(self, env: gymnasium.Env, statistics_now: Callable[[], Statistics]) -> None:
        super().__init__(env)
        self._statistics_now = statistics_now

    def reset(self, **options: Any) -> tuple[NDArray, dict[str, Any]]:
        self._statistics = self._statistics_now()  # no training environment is stepped during an episode here
        return super().reset(**options)

    def observation(self, observation: NDArray) -> NDArray:
        scaled = (observation - self._statistics.mean) / np.sqrt(self._statistics.variance)
        return np.clip(scaled, -10.0, 10.0)


@contextlib.contextmanager
def registered(entry_point: Callable[..., gymnasium.Env]) -> Iterator[str]:
    """A Gymnasium id for as long as it takes to make environments from it."""
    env_id = "ucb_moppo/Counted-v0"
    gymnasium.register(env_id, entry_point=entry_point, disable_env_checker=True)
    try:
        yield env_id
    finally:
        del gymnasium.registry[env_id]


def find_normaliser(env: gymnasium.Env) -> Any:
    """The running statistics of the NormalizeObservation wrapper around an environment."""
    while not isinstance(env, gymnasium.wrappers.NormalizeObservation):
        env = env.env  # type: ignore[attr-defined]
    return env.obs_rms


def pool_statistics(parts: Sequence[Any]) -> Statistics:
    """Mean [d], variance [d] and count of several running statistics taken together."""
    shares = np.array([part.count for part in parts])
    total = shares.sum()
    means, variances = np.stack([part.mean for part in parts]), np.stack([part.var for part in parts])
    shares = (shares / total)[:, None]
    mean = (shares * means).sum(0)
    variance = (shares * (variances + (means - mean) ** 2)).sum(0)
    return Statistics(mean, variance + VARIANCE_FLOOR, np.asarray(total))


def name_statistics(statistics: Statistics) -> dict[str, NDArray]:
    return {f"observation.{name}": np.asarray(a, np.float32) for name, a in statistics._asdict().items()}


def name_layers(layers: Sequence[torch.nn.Linear]) -> dict[str, NDArray]:
    """Linear layers, the last of them the head, as our tensors; torch keeps kernels the other way round."""
    names = [*(f"hidden{number}" for number in range(1, len(layers))), "head"]
    tensors = {}
    for name, layer in zip(names, layers, strict=True):
        tensors[f"actor.{name}.kernel"] = layer.weight.detach().numpy().T.copy()
        tensors[f"actor.{name}.bias"] = layer.bias.detach().numpy().copy()
    return tensors


def name_actor(networks: Any) -> dict[str, NDArray]:
    """The Gaussian actor of one of PGMORL's policies."""
    tensors = name_layers([m for m in networks.actor_mean if isinstance(m, torch.nn.Linear)])
    return tensors | {"actor.log_std": networks.actor_logstd.detach().numpy()[0].copy()}


def count(modules: Sequence[torch.nn.Module]) -> int:
    """Parameters of all modules."""
    return sum(parameter.numel() for module in modules for parameter in module.parameters())
