"""Shards in a Ray cluster: the bits of the same shards in this process, whatever happens to actors and nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pool_work import describe, die_once, fail_or_die, save_when_stopped, wait_for
from test_executors import (
    LAYOUT,
    PARTING,
    WEIGHTS,
    assert_equal,
    config,
    during_the_next_call,
    make,
    often,
    rehearse,
)
from tiny_runs import assert_same, tiny_options, train_tiny
from trade_runs import PROBLEM, SETTINGS

from ucb_moppo.cli import main as cli
from ucb_moppo.errors import EnvironmentFault, UcbMoppoWarning, WorkerLostError
from ucb_moppo.runtime.executor import ShardedExecutor
from ucb_moppo.runtime.pool import run_cells

# Ray takes a loopback address for a mistake and replaces it with the machine's own, unless clusters are off.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (else tests beside these starve the actors)
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ucb-moppo[ray]'")
cluster_utils = pytest.importorskip("ray.cluster_utils", reason="this Ray has no test cluster")

from ucb_moppo.runtime.cluster import MODE, SEVERAL_MACHINES, TOKEN, TOKEN_FILE, own_token, share_cpus  # noqa: E402


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    executor = make(config(executor="local"))
    found = rehearse(executor)
    executor.close()
    return found


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU on this machine; the head, which a run cannot lose, has none.

    They are started as from a shell that runs its commands in the background, which makes them ignore SIGINT.
    """
    small = {"object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    cluster.workers = [cluster.add_node(num_cpus=1, **small) for _ in range(2)]
    signal.signal(signal.SIGINT, before)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.parametrize(
    ("nodes", "shards", "share"), [([4, 4], 2, 4), ([4, 4], 3, 2), ([3, 3], 3, 1), ([0, 1, 1], 2, 1), ([1], 2, 0)]
)
def test_a_share_of_cpus_fits_every_shard_on_some_node(nodes: list[float], shards: int, share: int) -> None:
    assert share_cpus(nodes, shards) == share


@pytest.mark.usefixtures("compiling_apart")
def test_actors_may_be_killed_and_a_node_may_leave(cluster: Any, expected: dict[str, np.ndarray]) -> None:
    """One cluster for all of it, because starting one takes long."""
    executor = make(config(executor="ray", ray_address=cluster.address))
    try:
        assert_equal(rehearse(executor), expected)
        executor.set_state(fresh_state())
        during_the_next_call(executor, executor.shards[0].worker.close)  # which kills the actor
        with pytest.warns(UcbMoppoWarning, match="a new one continues"):  # noqa: PT031
            first = executor.train(often(2))
            found = executor.evaluate(WEIGHTS, 1)
        node = node_of(executor, 1, cluster)
        during_the_next_call(executor, lambda: cluster.remove_node(node, allow_graceful=False))
        with pytest.warns(UcbMoppoWarning, match="a new one continues"):  # noqa: PT031
            last = executor.train(often(1))  # may end before the node does: then the next call finds it gone
            states = executor.policies() | executor.get_state()
        result = {f"first {n}": a for n, a in first.items()} | {f"last {n}": a for n, a in last.items()}
        result |= {"returns": found.returns, "steps": np.array(found.steps)}
        assert_equal(result | states, expected)
    finally:
        executor.close()


def node_of(executor: ShardedExecutor, shard: int, cluster: Any) -> Any:
    """The node that a shard's actor is on."""
    worker: Any = executor.shards[shard].worker
    actor = worker.reply.task_id().actor_id().hex()
    found = ray._private.state.actors(actor)["Address"]["NodeID"]
    return next(node for node in cluster.workers if node.node_id == found)


def fresh_state() -> dict[str, np.ndarray]:
    executor = make(config(executor="local"))
    try:
        return executor.get_state()
    finally:
        executor.close()


def test_a_run_whose_actor_is_killed_ends_like_any_other(cluster: Any, tmp_path: Path) -> None:
    """The whole run, its files included: twelve iterations, of which the first six share a policy."""
    layout = LAYOUT | PARTING | {"steps": 1440, "together": 6}
    whole = train_tiny(tmp_path / "whole", **(layout | {"executor": "local"})).path
    path = tmp_path / "run"

    def kill_one() -> None:
        while not list(path.glob("checkpoints/0000000[2-9]-*")):
            time.sleep(0.02)
        actors = [actor for actor in ray._private.state.actors().values() if actor["State"] == "ALIVE"]
        os.kill(actors[0]["Pid"], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.warns(UcbMoppoWarning, match="a new one continues"):
        train_tiny(path, **(layout | {"executor": "ray", "ray_address": cluster.address}))
    killer.join()
    for name in ("policies.safetensors", "evaluations.csv", "front.csv"):
        assert (path / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_driver_that_is_killed_is_resumed(cluster: Any, tmp_path: Path) -> None:
    layout = LAYOUT | {"steps": 1440}
    whole = train_tiny(tmp_path / "whole", **(layout | {"executor": "local"})).path
    path = tmp_path / "run"
    options = tiny_options(**(layout | {"executor": "ray", "ray_address": cluster.address}))
    program = [sys.executable, "-m", "ucb_moppo"]
    driver = subprocess.Popen([*program, "train", *options, "--out", str(path), "--quiet"])
    while driver.poll() is None and not list(path.glob("checkpoints/0000000[2-9]-*")):
        time.sleep(0.05)
    assert driver.poll() is None, "the run ended before it could be killed"
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    subprocess.run([*program, "resume", str(path), "--quiet"], check=True)
    for name in ("policies.safetensors", "evaluations.csv", "front.csv"):
        assert (path / name).read_bytes() == (whole / name).read_bytes(), name


def test_cells_are_tasks_that_fail_alone_and_have_a_share_of_the_cpus(cluster: Any, tmp_path: Path) -> None:
    where = {"executor": "ray", "ray_address": cluster.address}
    found = dict(run_cells(["raise", "die", "good"], fail_or_die, **where))
    assert found["good"].result() == "GOOD"
    assert isinstance(found["raise"].fault, ValueError)
    assert isinstance(found["die"].fault, WorkerLostError)
    begun_twice = run_cells([str(tmp_path / "a")], die_once, restarts=1, **where)
    assert [outcome.result() for _, outcome in begun_twice] == ["second"]
    [(_, outcome)] = run_cells([0], describe, **where)
    value = outcome.result()
    assert (len(value["cores"]), value["NPROC"]) == (1, "1")
    saved = tmp_path / "saved"
    with closing(run_cells([str(saved), ""], save_when_stopped, **where)) as cells:  # type: ignore[type-var]
        assert next(cells)[0] == ""
        assert wait_for(saved.with_suffix(".begun"))
    assert saved.exists(), "a cell under way is asked to stop and has time to save"


def test_a_sweep_on_the_cluster_leaves_what_one_right_here_leaves(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two cells that end and two that fail, by the command line; the same bytes from both executors."""
    sweep = {"name": "sweep", "problems": [PROBLEM], "methods": ["fixed"], "seeds": [0, 1], "settings": SETTINGS}
    failing = {"problems": ["probe_envs:probe/Raising-v0", PROBLEM], "settings": SETTINGS | {"horizon": 5}}
    spec = tmp_path / "sweep.json"
    for place, options in (("here", ["--executor", "local"]), ("there", ["--executor", "ray"])):
        spec.write_text(json.dumps(sweep | failing))
        address = ["--ray-address", cluster.address] if place == "there" else []
        places = ["--runs", str(tmp_path / place / "runs"), "--out", str(tmp_path / place / "results")]
        with pytest.raises(SystemExit) as end:
            cli.main(["bench", str(spec), *places, *options, *address])
        assert end.value.code == 1
        shown = capsys.readouterr().out
        assert "4 cells: 2 finished, 2 failed" in shown
        assert shown.count("the motor burnt out") == 2
    runs = [path.parent.relative_to(tmp_path / "here") for path in tmp_path.glob("here/runs/*/*/front.csv")]
    assert len(runs) == 2
    for run in runs:
        assert_same(tmp_path / "there" / run, tmp_path / "here" / run)
    assert len(list(tmp_path.glob("there/results/*/*.json"))) == 2


OWN_RAY = """
from pathlib import Path
import ray
from ucb_moppo.runtime.cluster import join_cluster

def listening():
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path("/proc/net", table).read_text().splitlines()]
    return {row[1] for row in rows if row[3] == "0A"}

before = listening()
leave = join_cluster(None)
print(*(node["NodeManagerAddress"] for node in ray.nodes()))
print(*(listening() - before))
leave()
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_a_ray_of_our_own_listens_on_this_machine_alone() -> None:
    """Without the variable that these tests set for their clusters of two nodes."""
    environment = {name: value for name, value in os.environ.items() if name != SEVERAL_MACHINES}
    command = [sys.executable, "-c", OWN_RAY]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    addresses, sockets = (line.split() for line in done.stdout.splitlines())
    assert addresses == ["127.0.0.1"], done.stderr
    assert len(sockets) > 3, "Ray has several servers"
    assert {socket.partition(":")[0] for socket in sockets} <= LOOPBACK


GUARDED_RAY = """
import os, subprocess, sys
from ucb_moppo.runtime.cluster import MODE, TOKEN, join_cluster
leave = join_cluster(None)
import ray
token = ray.get(ray.remote(os.getenv).remote(TOKEN))
print(len(token), *(name in os.environ for name in (MODE, TOKEN)))
address = ray.get_runtime_context().gcs_address
ask = "import sys; from ray._raylet import GcsClient as Client; "
ask += "print(*Client(address=sys.argv[1]).get_all_node_info(timeout=60))"
visitors = [{MODE: "disabled"}, {MODE: "token", TOKEN: "0" * 64}, {MODE: "token", TOKEN: token}]
command, pipe = [sys.executable, "-c", ask, address], subprocess.PIPE
asked = [subprocess.Popen(command, env=os.environ | own, stdout=pipe, stderr=pipe, text=True) for own in visitors]
for out, fault in [visitor.communicate() for visitor in asked]:
    print("answered" if out.strip() else "refused" if "AuthenticationError" in fault else fault)
leave()
leave = join_cluster(None)  # with a token of its own
print(ray.get(ray.remote(os.getenv).remote(TOKEN)) != token)
leave()
"""


def test_a_ray_of_our_own_answers_only_to_those_who_know_its_token(tmp_path: Path) -> None:
    """Neither to one who has none nor to one who has another; none is left in the environment or in a file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    environment["HOME"] = str(tmp_path)
    command = [sys.executable, "-c", GUARDED_RAY]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.stdout.splitlines() == ["64 False False", "refused", "refused", "answered", "True"], done.stderr
    assert not (tmp_path / ".ray").exists()


def test_settings_of_the_user_for_the_token_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (MODE, TOKEN, TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(TOKEN_FILE, "/somewhere")
    with own_token():
        assert (os.environ.get(MODE), os.environ.get(TOKEN)) == (None, None)
    monkeypatch.setenv(MODE, "disabled")
    with own_token():
        assert (os.environ[MODE], os.environ.get(TOKEN)) == ("disabled", None)


def test_errors_of_an_actor_are_those_of_the_shard() -> None:
    """On a Ray of its own, listening on this machine alone."""
    chosen = config("probe_envs:probe/Raising-v0", reference_point=(0.0, 0.0), executor="ray")
    executor = make(chosen)
    try:
        assert {node["NodeManagerAddress"] for node in ray.nodes()} == {"127.0.0.1"}
        with pytest.raises(EnvironmentFault, match="the motor burnt out"):
            executor.train(often(1))
    finally:
        executor.close()
    assert not ray.is_initialized()
