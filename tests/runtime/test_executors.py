"""The same shards in this process and in processes of their own: the same bits, also when a process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import assert_same, tiny_settings, train_tiny

from ucb_moppo.config import MoppoConfig, override, resolve
from ucb_moppo.cores import LIMIT, at_most, available_cores, can_pin, physics_threads, share_cores
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.population import Population
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import ConfigError, EnvironmentFault, RunFormatError, UcbMoppoWarning, WorkerLostError
from ucb_moppo.runtime.executor import ShardedExecutor, choose_executor, make_executor, split_subspaces
from ucb_moppo.runtime.place import Place
from ucb_moppo.runtime.processes import ProcessWorker
from ucb_moppo.runtime.worker import Request, Worker, WorkerLost

WEIGHTS = np.random.default_rng(0).dirichlet((1, 1), (3, 2))
LAYOUT = {"policies": 3, "shards": 2, "steps": 1200}
# Ten iterations, the first two with one policy for all three sub-spaces.
PARTING = {"layout": "parting", "warmup": 2, "together": 2}
SPEC = make_spec("Swimmer-v2", horizon=20)


def often(iterations: int) -> np.ndarray:
    """The same weights at every iteration: [I, K, N, m]."""
    return np.stack([WEIGHTS] * iterations)


def config(problem: str = "Swimmer-v2", **changes: object) -> MoppoConfig:
    """Three policies in two shards, so that one shard has two of them."""
    chosen = tiny_settings(problem, **(LAYOUT | changes))
    return resolve(chosen, make_spec(problem, chosen.horizon, chosen.reference_point))


def make(chosen: MoppoConfig) -> ShardedExecutor:
    return make_executor(chosen, make_spec(chosen.problem, chosen.horizon, chosen.reference_point))


def rehearse(executor: ShardedExecutor) -> dict[str, np.ndarray]:
    """Train, evaluate and train; everything that can be seen of it."""
    first = executor.train(often(2))
    found = executor.evaluate(WEIGHTS, 1)
    last = executor.train(often(1))
    return (
        {f"first {name}": array for name, array in first.items()}
        | {f"last {name}": array for name, array in last.items()}
        | {"returns": found.returns, "steps": np.array(found.steps)}
        | executor.policies()
        | executor.get_state()
    )


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    assert [n for n in found if found[n].tobytes() != expected[n].tobytes()] == []


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    executor = make(config(executor="local"))
    try:
        return rehearse(executor)
    finally:
        executor.close()


def rehearse_parting(executor: ShardedExecutor) -> dict[str, np.ndarray]:
    """Train together, evaluate, part, and do it again apart; everything that can be seen of it."""
    first, found = executor.train(often(2)), executor.evaluate(WEIGHTS, 2)
    together = executor.policies()
    executor.part()
    return parting_result(first, found, together, executor.train(often(1)), executor)


def parting_result(
    first: dict[str, np.ndarray],
    found: Evaluation,
    together: dict[str, np.ndarray],
    apart: dict[str, np.ndarray],
    executor: ShardedExecutor,
) -> dict[str, np.ndarray]:
    """All of it by name, an evaluation of what came out included."""
    last = executor.evaluate(WEIGHTS, 1)
    parts = {"first": first, "together": together, "apart": apart}
    result = {f"{part} {name}": array for part, named in parts.items() for name, array in named.items()}
    result |= {"found": found.episodes, "last": last.episodes, "steps": np.array([found.steps, last.steps])}
    return result | executor.policies() | executor.get_state()


@pytest.fixture(scope="module")
def expected_parting() -> dict[str, np.ndarray]:
    executor = make(config(executor="local", **PARTING))
    try:
        return rehearse_parting(executor)
    finally:
        executor.close()


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.1)
    return condition()


def runs(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- the layout --------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_layout_covers_the_policies_evenly_and_in_order(policies: int, shards: int) -> None:
    shards = min(shards, policies)
    layout = split_subspaces(policies, shards)
    assert [policy for part in layout for policy in part] == list(range(policies))
    assert len(layout) == shards
    assert {len(part) for part in layout} <= {policies // shards, -(-policies // shards)}


@given(st.integers(1, 64), st.integers(1, 100))
def test_every_shard_has_cores_and_no_core_is_left_out(num_cores: int, shards: int) -> None:
    cores = list(range(100, 100 + num_cores))
    shares = [share_cores(cores, index, shards) for index in range(shards)]
    assert all(shares)
    assert {core for share in shares for core in share} == set(cores)
    if shards <= num_cores:
        assert sorted(core for share in shares for core in share) == cores


def test_a_short_run_stays_in_one_process_and_a_long_one_uses_the_cores() -> None:
    cores = len(available_cores())
    short, long = config(shards=None), config(shards=None, steps=400_000, policies=100)
    assert (short.shards, choose_executor(short)) == (1, "local")
    assert long.shards == cores
    assert choose_executor(long) == ("processes" if cores > 1 else "local")
    assert config(shards=None, steps=400_000, executor="local").shards == 1
    assert config(shards=None, executor="processes").shards == min(3, cores)


@pytest.mark.parametrize("said", ["0", "-1", "x", "1.5"])
def test_a_limit_that_is_no_number_of_cores_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, said)
    for read in (available_cores, lambda: at_most(2)):
        with pytest.raises(ConfigError, match=f"{LIMIT} is '{said}'; give it a number of cores, at least 1"):
            read()


def test_a_limit_is_never_more_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "1")
    assert (len(available_cores()), at_most(2)) == (1, 1)
    monkeypatch.setenv(LIMIT, "1000000")
    assert at_most(2) == 2
    monkeypatch.setenv(LIMIT, "")
    assert at_most(2) == 2


def test_the_largest_shards_have_threads_for_the_cores_lent_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIMIT, raising=False)
    assert physics_threads([5, 5], [[0], [1]]) == [1, 1]
    assert physics_threads([2, 3], [[0], [1]]) == [1, 2]
    assert physics_threads([1, 1, 1, 2], [[0], [1], [2], [3]]) == [1, 1, 1, 4]
    assert physics_threads([1, 2, 1, 2], [[0, 1], [2, 3], [4, 5], [6, 7]]) == [2, 4, 2, 4]
    assert physics_threads([1, 1, 1, 2], [[0], [1], [0], [1]]) == [1, 1, 1, 2], "no more than there are cores"
    monkeypatch.setenv(LIMIT, "2")
    assert physics_threads([2, 3], [[0], [1]]) == [1, 1], "cores that are only counted cannot be lent"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": 4}, "shards is 4 but there are only 3 policies"),
        ({"shards": 0}, "shards is 0"),
        ({"executor": "prozesses"}, "did you mean processes"),
        ({"executor": "ray", "shards": None}, "give --shards"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**changes)


def test_a_layout_changes_no_more_than_rounding(expected: dict[str, np.ndarray]) -> None:
    """Seeds and noise belong to the policy: in one shard or in two, policies walk the same way."""
    executor = make(config(executor="local", shards=1))
    executor.train(often(2))
    executor.evaluate(WEIGHTS, 1)
    executor.train(often(1))
    policies = executor.policies()
    executor.close()
    assert policies["actor.head.bias"].shape == (3, 2)
    for name, array in policies.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-4, err_msg=name)


# --- the same bits -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("compiling_apart")
def test_processes_give_the_bits_of_the_same_shards_in_this_process(expected: dict[str, np.ndarray]) -> None:
    executor = make(config(executor="processes"))
    try:
        timing = executor.time_iteration()
        assert timing.iteration > 0
        assert timing.step > 0
        assert_equal(rehearse(executor), expected)
        pinned = [os.sched_getaffinity(shard.worker.pid) for shard in executor.shards]  # type: ignore[attr-defined]
        assert pinned == [set(share_cores(available_cores(), index, 2)) for index in range(2)]
        assert executor.divergences() == []
    finally:
        executor.close()
    assert not any(runs(shard.worker.pid) for shard in executor.shards)  # type: ignore[attr-defined]


@pytest.mark.skipif(len(available_cores()) < 2 or not can_pin(), reason="there are no cores to lend")
def test_a_shard_that_is_done_lends_its_cores_while_others_work() -> None:
    """Shard 1, the larger, stands still; as soon as shard 0 has answered, 1 may use all cores."""
    executor = make(config(executor="processes"))
    first, second = (shard.worker for shard in executor.shards)
    assert isinstance(first, ProcessWorker)
    assert isinstance(second, ProcessWorker)
    seen: list[bool] = []

    def lent() -> bool:
        threads = [int(thread) for thread in os.listdir(f"/proc/{second.pid}/task")]
        return all(os.sched_getaffinity(thread) == {*first.cores, *second.cores} for thread in threads)

    def look() -> None:
        try:
            seen.append(wait_until(lent))
        finally:
            os.kill(second.pid, signal.SIGCONT)

    try:
        executor.train(often(1))
        os.kill(second.pid, signal.SIGSTOP)
        watcher = threading.Thread(target=look)
        watcher.start()
        executor.train(often(1))
        watcher.join()
        assert seen == [True]
        for worker in (first, second):
            assert os.sched_getaffinity(worker.pid) == set(worker.cores), "given back before the next call"
    finally:
        executor.close()


def test_state_moves_from_one_executor_to_the_other(expected: dict[str, np.ndarray]) -> None:
    """Processes continue what was begun here; a state of another layout is refused."""
    local, processes = make(config(executor="local")), make(config(executor="processes"))
    other = make(config(executor="local", shards=1))
    try:
        local.train(often(2))
        processes.set_state(local.get_state())
        processes.evaluate(WEIGHTS, 1)
        processes.train(often(1))
        assert_equal(processes.get_state(), {n: a for n, a in expected.items() if n.startswith("shard")})
        with pytest.raises((RunFormatError, ConfigError)):
            other.set_state(local.get_state())
    finally:
        for executor in (local, processes, other):
            executor.close()


def test_whole_runs_agree_on_a_gymnasium_problem(tmp_path: Path) -> None:
    """Environments written in Python, named by a module that only this program's path knows."""
    problem = {"problem": "probe_envs:probe/Trade-v0", "horizon": 5, "reference_point": (-20.0, -20.0)}
    local = train_tiny(tmp_path / "local", **(LAYOUT | problem | {"steps": 480, "executor": "local"}))
    processes = train_tiny(tmp_path / "processes", **(LAYOUT | problem | {"steps": 480, "executor": "processes"}))
    for name in ("policies.safetensors", "evaluations.csv", "front.csv"):
        assert (local.path / name).read_bytes() == (processes.path / name).read_bytes()


# --- together, then apart ----------------------------------------------------------------------------------


def test_a_shared_policy_learns_from_the_rollouts_of_all_shards() -> None:
    """The slow version: every sub-space collects by itself, and one policy learns from all of it side by side."""
    chosen = config(executor="local", **PARTING)
    executor = make(chosen)
    policy = Population(chosen, SPEC, range(3), group=3)
    alone = [Shard(chosen, [k], led=True) for k in range(3)]
    try:
        for _ in range(2):
            report = executor.train(often(1))
            noise = policy.draw_noise()  # [T, 1, 3·N, a]: two environments of each sub-space in turn
            acting = {name: array[:1] for name, array in policy.tensors().items()}
            parts = [
                shard.collect(acting, WEIGHTS[k : k + 1], noise[:, :, 2 * k : 2 * k + 2])
                for k, shard in enumerate(alone)
            ]
            rollout = jax.tree.map(lambda *arrays: np.concatenate(arrays, axis=2), *parts)
            expected = policy.update(rollout, WEIGHTS.reshape(1, 6, 2))
        for name, array in policy.tensors().items():
            np.testing.assert_allclose(executor.policies()[name], array, rtol=1e-3, atol=1e-4, err_msg=name)
        assert report["entropy"].shape == (1, 1)  # of one policy
        np.testing.assert_allclose(report["entropy"][0], expected["entropy"], rtol=1e-4)
    finally:
        executor.close()


def test_policies_that_part_begin_as_what_they_shared(expected_parting: dict[str, np.ndarray]) -> None:
    executor = make(config(executor="local", **PARTING))
    try:
        assert executor.lead is not None
        executor.train(often(2))
        together = executor.policies()
        executor.part()
        assert executor.lead is None
        assert_equal(executor.policies(), together)
        state = executor.get_state()
        executor.part()  # once is enough: later stages may say it again
        assert_equal(executor.get_state(), state)
        keys = np.concatenate([state["shard0.policy.key"], state["shard1.policy.key"]])
        assert len(np.unique(keys, axis=0)) == 3
        iterations = [state[f"shard{index}.policy.iteration"].tolist() for index in range(2)]
        assert iterations == [[2], [2, 2]]  # three sub-spaces in two shards
    finally:
        executor.close()
    # Apart they learn apart.
    kernels = expected_parting["actor.hidden1.kernel"]
    assert not np.array_equal(kernels[0], kernels[1])
    assert not np.array_equal(kernels[1], kernels[2])


@pytest.mark.usefixtures("compiling_apart")
def test_processes_part_with_the_bits_of_the_same_shards_in_this_process(
    expected_parting: dict[str, np.ndarray],
) -> None:
    executor = make(config(executor="processes", **PARTING))
    try:
        assert executor.time_iteration().iteration > 0
        assert_equal(rehearse_parting(executor), expected_parting)
    finally:
        executor.close()


def test_the_number_of_shards_changes_no_more_than_rounding_of_what_is_shared(
    expected_parting: dict[str, np.ndarray],
) -> None:
    executor = make(config(executor="local", shards=1, **PARTING))
    try:
        found = rehearse_parting(executor)
    finally:
        executor.close()
    for name in (name for name in found if name.startswith(("together ", "actor.", "observation."))):
        np.testing.assert_allclose(found[name], expected_parting[name], rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_array_equal(found["steps"], expected_parting["steps"])


def test_a_shared_state_moves_from_one_executor_to_the_other(expected_parting: dict[str, np.ndarray]) -> None:
    """In the shared phase, just before the parting and after it; processes may also go back from there."""
    local, processes = (make(config(executor=name, **PARTING)) for name in ("local", "processes"))
    try:
        local.train(often(1))
        processes.set_state(local.get_state())
        reports = [processes.train(often(1))]
        local.set_state(processes.get_state())
        found, together = local.evaluate(WEIGHTS, 2), local.policies()
        before = local.get_state()
        local.part()
        processes.set_state(local.get_state())
        assert processes.lead is None
        processes.train(often(1))
        processes.set_state(before)  # to what is shared again
        assert processes.lead is not None
        processes.part()
        result = parting_result(reports[0], found, together, processes.train(often(1)), processes)
        for name in (name for name in result if not name.startswith("first ")):
            assert result[name].tobytes() == expected_parting[name].tobytes(), name
    finally:
        local.close()
        processes.close()


# --- faults ------------------------------------------------------------------------------------------------


def test_a_killed_process_is_replaced_and_nothing_shows(expected: dict[str, np.ndarray]) -> None:
    """Killed twice: before anything was kept, and in the stage after an evaluation."""
    executor = make(config(executor="processes"))
    try:
        kill_during_the_next_call(executor, 0)
        with pytest.warns(UcbMoppoWarning, match="signal 9; a new one continues"):
            first = executor.train(often(2))
        found = executor.evaluate(WEIGHTS, 1)
        kill_during_the_next_call(executor, 1)
        with pytest.warns(UcbMoppoWarning, match="signal 9"):
            last = executor.train(often(1))
        result = {f"first {n}": a for n, a in first.items()} | {f"last {n}": a for n, a in last.items()}
        result |= {"returns": found.returns, "steps": np.array(found.steps)}
        assert_equal(result | executor.policies() | executor.get_state(), expected)
    finally:
        executor.close()


def test_a_process_killed_while_policies_are_shared_is_replaced(expected_parting: dict[str, np.ndarray]) -> None:
    """Killed while it collects, while it evaluates, while it is given its own policies, and after that."""
    executor = make(config(executor="processes", **PARTING))

    def lose(shard: int, call: Callable[[], Any]) -> Any:
        kill_during_the_next_call(executor, shard)
        with pytest.warns(UcbMoppoWarning, match="signal 9; a new one continues"):
            return call()

    try:
        first = lose(1, lambda: executor.train(often(2)))
        found = lose(0, lambda: executor.evaluate(WEIGHTS, 2))
        together = executor.policies()
        lose(1, executor.part)
        apart = lose(0, lambda: executor.train(often(1)))
        assert_equal(parting_result(first, found, together, apart, executor), expected_parting)
    finally:
        executor.close()


def during_the_next_call(executor: ShardedExecutor, act: Callable[[], object]) -> None:
    """Act after the next call has begun everywhere, before anyone waits for its result."""
    place: Any = executor.place
    wait = place.wait

    def first_act(slots: Sequence[int]) -> Sequence[int]:
        place.wait = wait
        act()
        return wait(slots)

    place.wait = first_act


def kill_during_the_next_call(executor: ShardedExecutor, shard: int) -> None:
    """Kill a process that has been asked and has not answered: it stands still until then, so as not to be done.

    From another thread: what is sent to it may be more than fits into the connection, as policies that part are,
    and is then sent for as long as it stands still.
    """
    worker: Any = executor.shards[shard].worker
    begin = worker.begin

    def begin_and_kill(*args: Any) -> Any:
        worker.begin = begin
        threading.Timer(0.5, os.kill, (worker.pid, signal.SIGKILL)).start()
        return begin(*args)

    os.kill(worker.pid, signal.SIGSTOP)
    worker.begin = begin_and_kill


@pytest.mark.parametrize("lost", [False, True])
def test_a_reply_that_nobody_waited_for_does_not_block_the_next_call(lost: bool) -> None:
    """More than fits into the connection in both directions: the process sends until what it sends is received."""
    worker: ProcessWorker[Any] = ProcessWorker(Request(bytes, (), {}), available_cores()[:1], interruptible=False)
    guard = threading.Timer(60, os.kill, (worker.pid, signal.SIGKILL))
    guard.start()
    try:
        worker.begin(bytes.__add__, bytes(1 << 20))  # as where another worker's call fails
        wait([worker.connection])
        if lost:
            os.kill(worker.pid, signal.SIGKILL)
        call = worker.begin(bytes.__add__, bytes(1 << 21))
        if lost:
            with pytest.raises(WorkerLost, match="ended with signal 9"):
                call.result()
        else:
            assert len(call.result()) == 1 << 21
            assert guard.is_alive()
    finally:
        guard.cancel()
        worker.close()


class DoomedWorker(Worker[Any]):
    """Is lost at every call."""

    def _begin(self, request: Request) -> Callable[[], Any]:
        def lose() -> Any:
            raise WorkerLost("process 1 ended with signal 9")

        return lose

    def interrupt(self) -> None: ...

    def join(self) -> None: ...

    def close(self) -> None: ...


class DoomedPlace(Place[DoomedWorker]):
    """Has no other workers."""

    def _make_worker(self, slot: int, building: Request) -> DoomedWorker:
        return DoomedWorker()

    def wait(self, slots: Sequence[int]) -> Sequence[int]:
        return slots


@pytest.mark.filterwarnings("ignore::ucb_moppo.errors.UcbMoppoWarning")
def test_a_worker_that_is_lost_again_and_again_ends_the_run() -> None:
    with pytest.raises(WorkerLostError, match=r"policies 0 to 2 was lost 4 times in a row .*enough memory"):
        ShardedExecutor(config(shards=1), SPEC, DoomedPlace([1])).train(often(1))


def test_errors_of_a_process_are_those_of_the_shard() -> None:
    chosen = config("probe_envs:probe/Raising-v0", reference_point=(0.0, 0.0), executor="processes")
    executor = make(chosen)
    try:
        with pytest.raises(EnvironmentFault, match="the motor burnt out") as fault:
            executor.train(often(1))
        assert "in the process of a worker" in fault.value.__notes__[0]
    finally:
        executor.close()


PARENT = """
import os, sys, time
from test_executors import config, make
executor = make(config(executor="processes"))
print(*(shard.worker.pid for shard in executor.shards), flush=True)
executor.policies()
print("ready", flush=True)
time.sleep(600)
"""


def test_processes_end_with_their_parent_and_ignore_its_terminal() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    try:
        assert parent.stdout.readline() == "ready\n"
        assert {os.getpgid(child) for child in children}.isdisjoint({parent.pid})
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    assert len(children) == 2
    assert wait_until(lambda: not any(map(runs, children)))


@pytest.mark.parametrize("parting", [{}, PARTING])
def test_a_run_with_processes_is_resumed_exactly_in_this_process(tmp_path: Path, parting: dict[str, Any]) -> None:
    """The executor may change when a run is continued; the layout may not. Killed when policies are to part."""
    from tiny_runs import DiesAt, Killed

    from ucb_moppo.training.reporter import Silent
    from ucb_moppo.training.resume import resume_run
    from ucb_moppo.training.train import train_run

    chosen = override(tiny_settings(), **(LAYOUT | {"steps": 480} | parting))
    whole = train_run(override(chosen, executor="local"), tmp_path / "whole", Silent()).path
    path = tmp_path / "run"
    with pytest.raises(Killed):
        train_run(override(chosen, executor="processes"), path, DiesAt(2))
    resume_run(path, Silent(), executor="local")
    assert_same(path, whole)
