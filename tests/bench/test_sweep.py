"""Sweeps: what fails is named and the rest goes on; what is finished is skipped, what broke continues."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import probe_envs
import pytest
from process_family import family
from rich.console import Console
from sample_results import assert_names_no_machine, write_results
from sample_runs import SampleRun
from tiny_runs import TINY, assert_same, train_tiny, train_until
from trade_runs import PROBLEM, SETTINGS

from ucb_moppo.bench import cell
from ucb_moppo.bench.board import Board, Lines, describe_ending, draw_cell, make_table
from ucb_moppo.bench.cell import Ending, Task
from ucb_moppo.bench.result import read_result
from ucb_moppo.bench.sweep import Sweep, describe_sweep, make_sweep, run_sweep
from ucb_moppo.bench.sweep_file import Cell, cell_config
from ucb_moppo.cli import main as cli
from ucb_moppo.errors import DisagreementError
from ucb_moppo.store.checkpoint import find_checkpoint
from ucb_moppo.store.lock import locked
from ucb_moppo.store.run import Run

Capture = pytest.CaptureFixture[str]
RAISING, DEADLY = "probe_envs:probe/Raising-v0", "probe_envs:probe/Deadly-v0"
PLACES = (("runs", ""), ("results", ".json"))


def write_spec(directory: Path, **changes: Any) -> Path:
    """A sweep of one cell of a second, with ``changes``."""
    spec = {"name": "sweep", "problems": [PROBLEM], "methods": ["fixed"], "seeds": [0], "settings": SETTINGS}
    path = directory / "sweep.json"
    path.write_text(json.dumps(spec | changes))
    return path


def sweep_of(directory: Path, executor: str = "local", **changes: Any) -> Sweep:
    places = {"runs": directory / "runs", "out": directory / "results"}
    return make_sweep(write_spec(directory, **changes), executor=executor, **places)


def bench(directory: Path, spec: Path, *options: str) -> None:
    places = ("--runs", str(directory / "runs"), "--out", str(directory / "results"))
    cli.main(["bench", str(spec), *places, "--executor", "local", *options])


def test_a_failing_cell_is_named_and_the_others_go_on(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failing problem comes first. Once it is mended, only that cell runs."""
    spec = write_spec(tmp_path, problems=[RAISING, PROBLEM], settings=SETTINGS | {"horizon": 5})
    with pytest.raises(SystemExit) as end:
        bench(tmp_path, spec)
    assert end.value.code == 1
    shown = capsys.readouterr()
    assert "2 cells: 1 finished, 1 failed" in shown.out
    (line,) = [line for line in shown.out.splitlines() if line.startswith("failed:")]
    assert "probe_envs-probe-Raising-v0/fixed-seed0" in line
    assert "the motor burnt out" in line
    assert "1 of 2 cells done, 1 failed" in shown.err
    results = sorted(path.relative_to(tmp_path / "results") for path in tmp_path.glob("results/*/*"))
    assert results == [Path("probe_envs-probe-Trade-v0/fixed-seed0.json")]
    assert_names_no_machine(read_result(tmp_path / "results" / results[0]))

    finished = tmp_path / "runs" / "probe_envs-probe-Trade-v0" / "fixed-seed0" / "summary.json"
    before = finished.stat().st_mtime_ns
    monkeypatch.setattr(probe_envs.Raising, "pay", probe_envs.Counter.pay)
    bench(tmp_path, spec)  # no exit code
    assert "2 cells: 2 finished (1 of them before), 0 failed" in capsys.readouterr().out
    assert finished.stat().st_mtime_ns == before
    assert read_result(tmp_path / "results" / "probe_envs-probe-Raising-v0" / "fixed-seed0.json")["finished"]


def test_a_cell_killed_half_way_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = train_tiny(tmp_path / "whole", method="random", seed=5)
    sweep = sweep_of(tmp_path, problems=["Swimmer-v2"], methods=["random"], seeds=[5], settings=TINY)
    (task,) = sweep.tasks
    train_until(task.run, 5, method="random", seed=5)
    assert run_sweep(sweep, Lines(io.StringIO())) == {task.cell.name: Ending(True)}
    assert_same(task.run, whole.path)
    assert read_result(task.result)["commit"].startswith("unknown, then ")  # we did not see it begin


def test_a_run_that_cannot_be_continued_is_moved_aside_and_begun_again(tmp_path: Path) -> None:
    """A run without checkpoints, such as those of a method that has no state to save."""
    sweep = sweep_of(tmp_path, problems=["Swimmer-v2"], methods=["fixed"], settings=TINY)
    (task,) = sweep.tasks
    train_until(task.run, 5, method="fixed")
    shutil.rmtree(task.run / "checkpoints")
    assert run_sweep(sweep, Lines(io.StringIO()))[task.cell.name].succeeded
    assert not Run(task.run.with_name("fixed-seed0.broken-1")).summary["finished"]
    assert Run(task.run).summary["finished"]
    assert "then" not in read_result(task.result)["commit"]


def test_a_finished_run_with_other_settings_is_not_taken_for_the_cell(tmp_path: Path, capsys: Capture) -> None:
    run_sweep(sweep_of(tmp_path), Lines(io.StringIO()))
    spec = write_spec(tmp_path, settings=SETTINGS | {"gamma": 0.5})
    with pytest.raises(SystemExit):
        bench(tmp_path, spec)
    shown = capsys.readouterr().out
    assert "holds a run with other settings: ppo gamma: 0.99 is now 0.5" in shown
    assert "--runs" in shown
    # What does not change the numbers may differ. The result stays: it knows what the note beside the run knew.
    (task,) = sweep_of(tmp_path).tasks
    commit = read_result(task.result)["commit"]
    task.provenance.unlink()
    assert run_sweep(sweep_of(tmp_path, settings=SETTINGS | {"threads": 1}), Lines(io.StringIO())) == {
        "probe_envs-probe-Trade-v0/fixed-seed0": Ending(True, skipped=True)
    }
    assert read_result(task.result)["commit"] == commit != "unknown"


def test_a_cell_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    """Also where it could not be continued, and would be moved aside."""
    sweep = sweep_of(tmp_path, methods=["fixed", "random"])
    for task in sweep.tasks:
        task.run.mkdir(parents=True)
    with locked(sweep.tasks[0].run), locked(sweep.tasks[1].run):
        endings = run_sweep(sweep, Lines(io.StringIO()))
    assert [ending.succeeded for ending in endings.values()] == [False, False]
    assert all("is being written by process" in ending.reason for ending in endings.values())
    assert sorted(path.name for path in sweep.tasks[0].run.parent.iterdir()) == ["fixed-seed0", "random-seed0"]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path, capsys: Capture) -> None:
    run_sweep(sweep_of(tmp_path), Lines(io.StringIO()))
    before = sorted(tmp_path.rglob("*"))
    bench(tmp_path, write_spec(tmp_path, seeds=[0, 1]), "--dry-run")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sweep: 2 cells, 1 at a time"
    assert lines[1].endswith("fixed-seed0: 400 steps, finished, to skip")
    assert lines[2].endswith("fixed-seed1: 400 steps, to run")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_process_that_dies_takes_its_cell_alone(tmp_path: Path) -> None:
    """Side by side, each on its share of the cores; the one that kills itself is named with the signal."""
    sweep = sweep_of(
        tmp_path,
        "processes",
        problems=[DEADLY, PROBLEM],
        settings=SETTINGS | {"horizon": 5, "checkpoint_stages": 9},
    )
    endings = run_sweep(sweep, Lines(io.StringIO()))
    died, lived = (endings[task.cell.name] for task in sweep.tasks)
    assert not died.succeeded
    assert f"ended with signal {int(signal.SIGKILL)}" in died.reason
    assert lived.succeeded
    found = read_result(sweep.tasks[1].result)
    assert found["hardware"]["cores_used"] == len(os.sched_getaffinity(0)) // sweep.slots
    assert found["seed"] == 0


@pytest.mark.parametrize("everyone", [False, True])
def test_a_signal_stops_a_sweep_and_the_same_command_continues_it(tmp_path: Path, everyone: bool) -> None:
    """Ctrl-C, or SIGTERM to every process as systemd and Slurm send it: the cell saves where it stands."""
    spec = write_spec(tmp_path, settings=SETTINGS | {"steps": 8000, "stage_iterations": 20})
    command = [sys.executable, "-m", "ucb_moppo", "bench", str(spec)]
    tests = str(Path(probe_envs.__file__).parent)
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = os.environ | {"PYTHONPATH": tests} | cache
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes)
    run = tmp_path / "runs" / "sweep" / "probe_envs-probe-Trade-v0" / "fixed-seed0"
    while not (run / "summary.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    for pid in family(process.pid) if everyone else [process.pid]:
        os.kill(pid, signal.SIGTERM if everyone else signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == (143 if everyone else 130)
    assert "the same command continues the sweep" in errors
    assert not Run(run).summary["finished"]
    checkpoint = find_checkpoint(run)
    assert checkpoint is not None
    assert checkpoint.name > "00000000-0002"  # not only what the beginning left
    assert not (tmp_path / "results").exists()

    done = subprocess.run(command, cwd=tmp_path, env=environment, **pipes, check=True)
    assert "1 cells: 1 finished, 0 failed" in done.stdout
    assert Run(run).summary["finished"]


# --- what a person sees ------------------------------------------------------------------------------------


def sample_board(directory: Path, slots: int) -> Board:
    """Of three cells of 9,000 steps one has finished in 40 s, one stands at 3,000 after 20 s, one waits."""
    cells = [Cell("Swimmer-v2", "ucb", seed) for seed in range(3)]
    tasks = [Task(one, directory / "runs", directory / "results", 9000) for one in cells]
    SampleRun(problem="Swimmer-v2").write(tasks[0].run)
    SampleRun(problem="Swimmer-v2", num_stages=2, seed=1, finished=False).write(tasks[1].run)
    return Board(tasks, slots, {cells[0].name: Ending(True)})


def test_time_left_is_by_the_pace_of_the_same_problem(tmp_path: Path) -> None:
    """Paces 40/9,000 and 20/3,000 s, mean 1/180; 6,000 + 9,000 steps are left: 83.3 s on one slot."""
    board = sample_board(tmp_path, 1)
    left = board.seconds_left()
    assert left is not None
    np.testing.assert_allclose(left, 15_000 / 180)
    assert board.describe() == "1 of 3 cells done, about 1 min 23 s left"
    board.slots = 2
    np.testing.assert_allclose(board.seconds_left(), 7500 / 180)


def test_time_left_is_within_the_time_of_each_cell(tmp_path: Path) -> None:
    """At 1/180 s a step the cells need 6,000/180 = 33.3 and 50 s more. Of 45 s the first has spent 20."""
    board = sample_board(tmp_path, 1)
    board.tasks = [replace(task, cell=replace(task.cell, max_seconds=45)) for task in board.tasks]
    np.testing.assert_allclose(board.seconds_left(), 25 + 45)
    board.tasks = [replace(task, cell=replace(task.cell, max_seconds=10)) for task in board.tasks]
    np.testing.assert_allclose(board.seconds_left(), 0 + 10)


def test_pre_training_counts_as_progress(tmp_path: Path) -> None:
    """1,500 steps of pre-training and none of training, of 9,000, in 30 s: 17%, and 7,500 steps of 0.02 s left."""
    task = Task(Cell("Swimmer-v2", "pdmorl", 0), tmp_path / "runs", tmp_path / "results", 9000)
    task.run.mkdir(parents=True)
    found = {"training_steps": 0, "pretraining_steps": 1500, "seconds": 30.0}
    (task.run / "summary.json").write_text(json.dumps(found))
    board = Board([task], 1)
    assert draw_cell(task, board).plain.strip() == "17%"
    np.testing.assert_allclose(board.seconds_left(), 150)


def test_only_ray_knows_how_many_cells_run_on_all_its_cpus(tmp_path: Path) -> None:
    board, lines = sample_board(tmp_path, 0), io.StringIO()
    Lines(lines).start(board)
    assert lines.getvalue() == "3 cells, as many at a time as Ray has CPUs\n"
    assert board.describe() == "1 of 3 cells done"
    sweep = sweep_of(tmp_path, "ray", seeds=[0, 1])
    assert describe_sweep(sweep).startswith("sweep: 2 cells, as many at a time as Ray has CPUs\n")


def test_the_table_has_a_row_per_method_and_a_column_per_seed(tmp_path: Path) -> None:
    board = sample_board(tmp_path, 1)
    board.endings[board.tasks[2].cell.name] = Ending(False, "why")
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(make_table(board))
    (row,) = [line for line in console.export_text().splitlines() if "Swimmer-v2" in line]
    cells = [text.strip() for text in row.strip("│").split("│")]
    hypervolume = Run(board.tasks[0].run).summary["hypervolume"]
    assert cells[:3] == ["Swimmer-v2", "ucb", f"HV {hypervolume:.4g}"]
    assert cells[3].startswith("33% HV ")
    assert cells[4] == "failed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cores", "-1"), "--cores is -1"),
        (("--cores", "9999"), "--cores is 9999"),
        (("--out", "FILE"), "is a file"),
    ],
)
def test_bad_options_are_refused(options: tuple[str, str], message: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "FILE"
    file.write_text("")
    with pytest.raises(SystemExit):
        cli.main(["bench", str(write_spec(tmp_path)), *(str(file) if text == "FILE" else text for text in options)])
    assert message in capsys.readouterr().err


# --- runs that their time ends -----------------------------------------------------------------------------


def timed_task(directory: Path, limit: float | None, noted: float | None) -> Task:
    """A cell given ``limit`` seconds, whose run was given ``noted``."""
    task = Task(Cell("Swimmer-v2", "ucb", 0, {}, limit), directory / "runs", directory / "results", 9000)
    task.run.mkdir(parents=True)
    task.provenance.write_text(json.dumps({"commit": "0", "hardware": {}, "max_seconds": noted}))
    return task


@pytest.mark.parametrize(
    ("limit", "noted", "summary", "ended"),
    [
        (60, 60, {"finished": False, "stopped": "max_seconds"}, True),
        (90, 60, {"finished": False, "stopped": "max_seconds"}, False),  # it may go on for longer now
        (None, 60, {"finished": False, "stopped": "max_seconds"}, False),
        (60, 60, {"finished": False}, False),  # killed
        (60, None, {"finished": True}, True),
    ],
)
def test_a_run_that_its_time_ended_is_finished_for_the_same_time(
    limit: float | None, noted: float | None, summary: dict[str, Any], ended: bool, tmp_path: Path
) -> None:
    assert cell.is_complete(timed_task(tmp_path, limit, noted), summary) == ended


def test_a_run_that_has_measured_scales_is_the_cell_that_left_them_open(tmp_path: Path) -> None:
    """Scales that the sweep does name must be those of the run."""
    measured = {"objective_scales": [0.5, 2.0]}
    task = Task(Cell("Swimmer-v2", "ucb", 0, {"steps": 50_000}), tmp_path, tmp_path, 50_000)
    config = json.loads(json.dumps(cell_config(task.cell).to_json())) | measured
    cell.check_same_settings(task, config, tmp_path)
    named = replace(task, cell=replace(task.cell, settings=task.cell.settings | {"objective_scales": [1.0, 2.0]}))
    with pytest.raises(DisagreementError, match="objective_scales"):
        cell.check_same_settings(named, config, tmp_path)


def test_a_longer_limit_counts_only_when_the_run_has_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted while it goes on for 90 seconds, it is still what 60 have ended."""
    task, stopped = timed_task(tmp_path, 90, 60), {"finished": False, "stopped": "max_seconds"}
    monkeypatch.setattr(cell, "list_checkpoints", lambda run: [run])

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cell, "resume_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cell.train_cell(task, "broken")
    assert not cell.is_complete(task, stopped)
    monkeypatch.setattr(cell, "resume_run", lambda *_, **__: None)
    cell.train_cell(task, "broken")
    assert cell.is_complete(task, stopped)


def test_a_result_without_its_run_is_finished(tmp_path: Path, capsys: Capture) -> None:
    """Results come from another machine with the repository; the runs behind them do not."""
    spec = write_spec(tmp_path, seeds=[0, 1])
    bench(tmp_path, spec)
    (run, _), (result, other) = (sorted(tmp_path.glob(f"{place}/*/*-seed?{end}")) for place, end in PLACES)
    kept = result.read_bytes()
    shutil.rmtree(tmp_path / "runs")
    other.unlink()
    bench(tmp_path, spec)
    assert "2 cells: 2 finished (1 of them before), 0 failed" in capsys.readouterr().out
    assert result.read_bytes() == kept
    assert not run.exists()
    assert read_result(other)["seed"] == 1

    result.write_bytes(kept[: len(kept) // 2])  # no result any more: made again
    bench(tmp_path, spec)
    assert read_result(result)["finished"]
    assert (run / "summary.json").exists()


def test_what_a_result_without_its_run_says_is_shown(tmp_path: Path) -> None:
    """In the lines as in the table, and in neither as soon as a run is there; steps of elsewhere set no pace."""
    task = Task(Cell("Swimmer-v2", "ucb", 0), tmp_path / "runs", tmp_path / "results", 2000)
    write_results(tmp_path / "results", "Swimmer-v2", "ucb", [1234.0])
    board = Board([task], 1, {task.cell.name: Ending(True, skipped=True)})
    assert describe_ending(task, board.endings[task.cell.name]) == "finished before, HV 1234, EU 123.4"
    assert draw_cell(task, board).plain == "HV 1234"
    assert board.seconds_left() is None
    SampleRun(problem="Swimmer-v2").write(task.run)
    hypervolume = Run(task.run).summary["hypervolume"]
    assert draw_cell(task, board).plain == f"HV {hypervolume:.4g}" != "HV 1234"


def test_a_result_of_other_settings_is_not_taken_for_the_cell(tmp_path: Path, capsys: Capture) -> None:
    bench(tmp_path, write_spec(tmp_path))
    shutil.rmtree(tmp_path / "runs")
    (path,) = (tmp_path / "results").glob("*/*.json")
    result = json.loads(path.read_text())
    result["config"]["goal"]["floor_penalty"] = 7.0  # a weighted sum does not look at floors
    path.write_text(json.dumps(result))
    bench(tmp_path, write_spec(tmp_path))
    assert not (tmp_path / "runs").exists()
    with pytest.raises(SystemExit):
        bench(tmp_path, write_spec(tmp_path, settings=SETTINGS | {"gamma": 0.5}))
    assert "fixed-seed0.json holds a run with other settings: ppo gamma: 0.99 is now 0.5" in capsys.readouterr().out
