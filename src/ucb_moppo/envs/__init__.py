"""Environments: the batch protocol, native MuJoCo, a Gymnasium adapter and problems as data.

May import the root; MuJoCo, Gymnasium and MO-Gymnasium are imported when an environment is made.
"""

from __future__ import annotations

from collections.abc import Sequence

from ucb_moppo.envs.base import ADAPTER_PREFIX, BatchEnv, Step, check_count, check_reference_point
from ucb_moppo.envs.known import PICTURES, published_objectives, without_version
from ucb_moppo.envs.mo_mujoco import CMORL_PROBLEMS, MO_PROBLEMS
from ucb_moppo.envs.naming import Name, read_name
from ucb_moppo.envs.pgmorl import PGMORL_PROBLEMS
from ucb_moppo.envs.problems import PROBLEMS, MujocoProblem, describe_problem, load_model
from ucb_moppo.envs.scales import find_scales
from ucb_moppo.errors import ConfigError, likeness, nearest_names
from ucb_moppo.spec import ActionSpec, EnvSpec

__all__ = [
    "ADAPTER_PREFIX",
    "MO_PROBLEMS",
    "PROBLEMS",
    "PROTOCOLS",
    "ActionSpec",
    "BatchEnv",
    "EnvSpec",
    "Step",
    "describe_problems",
    "find_problem",
    "found_by_import",
    "list_mo_gymnasium_ids",
    "make_batch",
    "make_spec",
    "measure_scales",
    "published_objectives",
    "read_name",
    "registered_here_alone",
]

PROTOCOLS: dict[str, dict[str, MujocoProblem]] = {
    "gymnasium": PROBLEMS | MO_PROBLEMS,
    "pgmorl": PGMORL_PROBLEMS,
    "cmorl": CMORL_PROBLEMS,
}
"""Native problems: the six and MO-Gymnasium's as Gymnasium's models have them (1,000 steps), the six as PGMORL set
them up (500), MO-Gymnasium's as C-MORL measures them (500)."""

NUM_TRIALS, MAX_TRIAL_STEPS = 16, 200
"""Episodes of random actions that scales are found by, and steps of each: slow problems are not kept waiting."""
MAX_SHOWN = 5
"""Ids of a module that a message names."""

# MuJoCo, Gymnasium and MO-Gymnasium are imported inside the functions: they take a second, and neither the
# command line's help nor a trained policy needs them.


def make_batch(
    problem: str,
    num_envs: int,
    num_threads: int = 0,
    horizon: int | None = None,
    reference_point: Sequence[float] | None = None,
    protocol: str = "gymnasium",
) -> BatchEnv:
    """``num_envs`` environments of a native problem, or of any Gymnasium id with a vector reward.

    ``num_threads`` (0: one per CPU) concerns native ones, which "adapter:" before an id declines. ``horizon`` and
    ``reference_point`` override the problem's own; ``protocol`` says which variant of a native problem.
    """
    native = find_problem(problem, protocol)
    if native is not None:
        from ucb_moppo.envs.native import NativeBatch

        return NativeBatch(native, num_envs, num_threads, horizon, reference_point)
    problem = problem.removeprefix(ADAPTER_PREFIX)
    _check_known(problem)
    from ucb_moppo.envs.adapter import GymBatch

    return GymBatch(problem, num_envs, horizon, reference_point)


def make_spec(
    problem: str,
    horizon: int | None = None,
    reference_point: Sequence[float] | None = None,
    protocol: str = "gymnasium",
) -> EnvSpec:
    """What ``make_batch(...).spec`` would say, from the model alone or from one environment."""
    native = find_problem(problem, protocol)
    if native is None:
        batch = make_batch(problem, 1, horizon=horizon, reference_point=reference_point)
        batch.close()
        return batch.spec
    if horizon is not None:
        check_count("horizon", horizon)
    point = check_reference_point(reference_point, len(native.objectives))
    return describe_problem(native, load_model(native), horizon, point)


def measure_scales(
    problem: str, protocol: str = "gymnasium", horizon: int | None = None
) -> tuple[float, ...] | None:
    """What the objectives of a problem that is not a native one are to be divided by, found by random actions."""
    if find_problem(problem, protocol) is not None:
        return None
    problem = problem.removeprefix(ADAPTER_PREFIX)
    from ucb_moppo.envs.adapter import make_env, random_returns

    env = make_env(problem)
    try:
        return find_scales(
            random_returns(problem, env, NUM_TRIALS, min(horizon or MAX_TRIAL_STEPS, MAX_TRIAL_STEPS))
        )
    finally:
        env.close()


def describe_problems(protocol: str = "gymnasium") -> list[EnvSpec]:
    """The native problems of a protocol, the six in the order of the paper's table."""
    return [make_spec(name, protocol=protocol) for name in PROTOCOLS[protocol]]


def list_mo_gymnasium_ids() -> list[str]:
    """Ids that MO-Gymnasium registers, sorted, without those of large pictures; some need packages of their own."""
    return sorted(env_id for env_id in _mo_gymnasium_ids() if without_version(env_id) not in PICTURES)


def _mo_gymnasium_ids() -> list[str]:
    import gymnasium

    from ucb_moppo.envs.adapter import import_mo_gymnasium

    import_mo_gymnasium()
    registered = gymnasium.registry.items()
    return [env_id for env_id, spec in registered if str(spec.entry_point).startswith("mo_gymnasium.")]


def found_by_import(problem: str) -> bool:
    """Whether another process finds the problem too: not one that only this program registers."""
    name = read_name(problem.removeprefix(ADAPTER_PREFIX))
    if name.module:
        return name.module != "__main__"
    native = find_problem(name.env_id) is not None
    return native or name.env_id in _mo_gymnasium_ids() or _registered_by_plugin(name.env_id)


def registered_here_alone(problem: str) -> bool:
    """Whether this program knows a problem that no other process finds by its name."""
    import gymnasium

    env_id = read_name(problem.removeprefix(ADAPTER_PREFIX)).env_id
    return env_id in gymnasium.registry and not found_by_import(problem)


def _registered_by_plugin(env_id: str) -> bool:
    """Whether an installed package registers the id in every process that imports Gymnasium."""
    from importlib.metadata import entry_points

    import gymnasium

    spec, plugins = gymnasium.registry.get(env_id), entry_points(group="gymnasium.envs")
    return spec is not None and _package(str(spec.entry_point)) in {_package(plugin.value) for plugin in plugins}


def _package(target: str) -> str:
    """The first name of "package.module:object"."""
    return target.partition(":")[0].partition(".")[0]


def find_problem(problem: str, protocol: str = "gymnasium") -> MujocoProblem | None:
    """A native problem by its name, with or without its Gymnasium namespace; None for anything else."""
    if protocol not in PROTOCOLS:
        raise ConfigError(f"unknown protocol {protocol!r}; {nearest_names(protocol, PROTOCOLS)}")
    found = PROTOCOLS[protocol].get(problem.removeprefix("ucb_moppo/"))
    if found is None and protocol != "gymnasium":
        raise ConfigError(
            f"protocol {protocol!r} is defined for {', '.join(PROTOCOLS[protocol])}, not for {problem!r}; "
            "leave --protocol out"
        )
    return found


def _check_known(problem: str) -> None:
    """Refuse an id that Gymnasium does not know, with the nearest ones that it does, or what hinders its module."""
    import gymnasium

    from ucb_moppo.envs.adapter import registered_spec

    try:
        registered_spec(problem)
    except ImportError as fault:
        module = read_name(problem).module
        if f"{module}.".startswith(f"{fault.name}."):
            remedy = "install it, or put its folder on PYTHONPATH"
            raise ConfigError(f"unknown problem {problem!r}: {fault}; {remedy}") from fault
        raise ConfigError(f"{problem!r}: its module {module} cannot be imported: {fault}") from fault
    except gymnasium.error.Error as fault:
        # Gymnasium names its own, whose rewards are scalars; about a module's ids it knows best.
        name, own = read_name(problem), [*PROBLEMS, *list_mo_gymnasium_ids()]
        remedy = f"one that a program of yours registers is named module:{name.env_id} to be found everywhere"
        near = f"{nearest_names(problem, own)} ({remedy})"
        what = f"{fault}{describe_registered(name)}" if name.module else near
        raise ConfigError(f"unknown problem {problem!r}: {what}") from fault


def describe_registered(name: Name) -> str:
    """A sentence with the ids that a module's package has registered, the nearest first; none if there are none."""
    import gymnasium

    package = _package(name.module)
    registered = gymnasium.registry.items()
    found = [env_id for env_id, spec in registered if _package(_entry_module(spec.entry_point)) == package]
    found.sort(key=lambda env_id: (-likeness(name.env_id, env_id), env_id))
    shown = found[:MAX_SHOWN] + ["…"] * (len(found) > MAX_SHOWN)
    return f" {name.module} registers {', '.join(shown)}" if shown else ""


def _entry_module(entry_point: object) -> str:
    """The module of what an id makes, which is told by its name or at hand."""
    named = isinstance(entry_point, str)
    return str(entry_point if named else getattr(entry_point, "__module__", ""))
