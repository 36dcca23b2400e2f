"""The real command, killed, signalled, starved of disk and started twice; what it leaves compared to the byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from process_family import family
from tiny_runs import assert_same, tiny_options, train_tiny

from ucb_moppo.errors import RunLockedError
from ucb_moppo.store.checkpoint import find_checkpoint, list_checkpoints
from ucb_moppo.store.run import Run
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run
from ucb_moppo.training.stop import StopRequest

STEPS = 1920  # 24 iterations
PATIENCE = 1200.0  # seconds; only a machine that stands still takes so long


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the commands: what one has compiled, the next need not."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return dict(os.environ) | cache


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to."""
    return train_tiny(tmp_path_factory.mktemp("whole") / "run", steps=STEPS).path


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start the command; whatever still runs at the end of a test is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ucb_moppo", *map(str, arguments), "--quiet"]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the end; what was said on the way."""
    return process.communicate(timeout=PATIENCE)[1]


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until something is so, or the process has ended."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def wait_for_checkpoint(process: subprocess.Popen[str], run: Path) -> None:
    """Until the process has saved something new."""
    before = list_checkpoints(run)[:1]
    wait_until(lambda: list_checkpoints(run)[:1] != before, process)


def test_killed_at_random_moments_many_times_in_a_row(whole: Path, tmp_path: Path, start: Start) -> None:
    rng = random.Random(20_250_101)
    run = tmp_path / "run"
    process = start("train", *tiny_options(steps=STEPS), "--out", run)
    positions = []
    for _ in range(5):
        wait_for_checkpoint(process, run)
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        finish(process)
        found = find_checkpoint(run)
        assert found is not None
        positions.append(found.name)
        process = start("resume", run)
    assert positions == sorted(positions)  # never back by more than what was not saved yet
    assert finish(process) == ""
    assert process.returncode == 0
    assert_same(run, whole)


def test_signals_save_and_exit_with_their_number(whole: Path, tmp_path: Path, start: Start) -> None:
    run = tmp_path / "run"
    process = start("train", *tiny_options(steps=STEPS, checkpoint_seconds=1e9), "--out", run)
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        wait_for_checkpoint(process, run)
        process.send_signal(number)
        said = finish(process)
        assert process.returncode == code, said
        assert f"{number.name}: saving at the next safe point" in said
        assert "continue with `ucb-moppo resume" in said
        assert list_checkpoints(run)[0] > "00000000"
        process = start("resume", run)
    finish(process)
    assert process.returncode == 0
    for name in ("policies.safetensors", "evaluations.csv", "front.csv"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


SWALLOWING = """
import os, signal
import gymnasium
from probe_envs import Counter

class Closed:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})

class Swallowing(Counter):
    def __init__(self):
        super().__init__()
        Closed()

gymnasium.register("own/Swallowing-v0", Swallowing)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_before_training_is_not_swallowed(
    tmp_path: Path, environment: dict[str, str], name: str, code: int
) -> None:
    """A finaliser swallows KeyboardInterrupt: a run that was told to stop so early went on to its end."""
    (tmp_path / "swallowing.py").write_text(SWALLOWING.format(name=name))
    support = Path(__file__).parents[1] / "support"
    searched = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(support)])}
    run = tmp_path / "run"
    words = ["train", *tiny_options("swallowing:own/Swallowing-v0"), "--quiet", "--out", str(run)]
    process = subprocess.run(
        [sys.executable, "-m", "ucb_moppo", *words],
        env=environment | searched,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == code, process.stderr
    assert f"{name}: stopped; nothing was being trained" in process.stderr
    assert not run.exists()


def test_a_second_signal_and_a_second_process(tmp_path: Path, start: Start) -> None:
    # An iteration of this run takes seconds, and it is all one stage: after a checkpoint no safe point is near.
    run = tmp_path / "run"
    options = tiny_options(samples=10_000, epochs=20, stage_iterations=1000, steps=20_000_000)
    process = start("train", *options, "--out", run)
    wait_for_checkpoint(process, run)
    with pytest.raises(RunLockedError, match=f"is being written by process {process.pid}; wait for it, or stop it"):
        resume_run(run, Silent())
    other = start("resume", run)
    said = finish(other)
    assert other.returncode == 2
    assert f"is being written by process {process.pid}" in said
    wait_until(lambda: list_checkpoints(run)[0] > "00000001", process)
    wait_for_checkpoint(process, run)
    newest = list_checkpoints(run)[0]
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert process.returncode == 143
    assert list_checkpoints(run)[0] == newest  # it did not wait to save
    # The lock of a process that is gone blocks nobody.
    resumed = start("resume", run)
    wait_for_checkpoint(resumed, run)
    assert (run / ".lock").read_text() == f"{resumed.pid}\n"


# --- nobody reads, everybody is told -----------------------------------------------------------------------


def start_unread(environment: dict[str, str], *arguments: object) -> subprocess.Popen[bytes]:
    """Start the command with a pipe for all that it says."""
    command = [sys.executable, "-m", "ucb_moppo", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@contextmanager
def heeded(number: int) -> Iterator[None]:
    """What is started here heeds a signal, also where whoever runs the tests ignores it, as under nohup."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_heeded_when_the_reader_is_gone(
    whole: Path, tmp_path: Path, environment: dict[str, str], number: int, code: int
) -> None:
    """`train … 2>&1 | tee log` and Ctrl-C: the reader is told to stop as well, and is gone first."""
    run = tmp_path / "run"
    with heeded(number):
        process = start_unread(environment, "train", *tiny_options(steps=STEPS), "--out", run)
    wait_until(lambda: list_checkpoints(run)[:1] > ["00000003"], process)  # type: ignore[arg-type]
    assert process.stdout is not None
    process.stdout.close()
    process.send_signal(number)
    assert process.wait(PATIENCE) == code
    resume_run(run, Silent())
    for name in ("policies.safetensors", "evaluations.csv", "front.csv"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_that_nobody_reads_goes_on_to_its_end(tmp_path: Path, environment: dict[str, str]) -> None:
    """`train … 2>&1 | head -1`."""
    run = tmp_path / "run"
    process = start_unread(environment, "train", *tiny_options(), "--out", run)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE) == 0
    assert Run(run).summary["finished"] is True


def test_help_that_is_not_read_to_its_end_is_no_error(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "ucb_moppo", "train", "--help"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(PATIENCE) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_signal_to_all_processes_is_the_run_s_own_matter(tmp_path: Path, start: Start) -> None:
    """As systemd and Slurm send it: workers leave it to their parent, which saves once and replaces nobody."""
    run = tmp_path / "run"
    layout = {"executor": "processes", "shards": 2, "steps": 100 * STEPS}
    process = start("train", *tiny_options(**layout), "--out", run)
    wait_until(lambda: list_checkpoints(run)[:1] > ["00000003"], process)  # type: ignore[arg-type]
    members = family(process.pid)
    assert len(members) == 3
    for pid in members:
        os.kill(pid, signal.SIGTERM)
    said = finish(process)
    assert process.returncode == 143, said
    assert "a new one continues" not in said
    assert find_checkpoint(run) is not None
    assert not any(Path(f"/proc/{pid}").exists() for pid in members[1:])


def test_what_is_ignored_stays_ignored() -> None:
    """`nohup ucb-moppo train …`: the terminal may go."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.signal is None
            signal.raise_signal(signal.SIGTERM)
            assert stop.signal == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# --- a full disk -------------------------------------------------------------------------------------------


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    path.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mount.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mount.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="a tmpfs needs Linux")
def test_a_full_disk_is_an_error_and_not_the_end(whole: Path, tmp_path: Path, start: Start) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "1300k"):  # two checkpoints and the files fit, a third one beside them does not
        run = disk / "run"
        process = start("train", *tiny_options(steps=STEPS), "--out", run)
        said = finish(process)
        assert process.returncode == 2, said
        assert "No space left on device; free some space, then continue with `ucb-moppo resume`" in said
        assert str(run) in said
        assert find_checkpoint(run) is not None
        debris = run / "checkpoints" / ".00000099-0001.tmp"
        debris.mkdir()
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        process = start("resume", run)
        said = finish(process)
        assert process.returncode == 0, said
        assert not debris.exists()
        assert_same(run, whole)
