"""Checkpoints by themselves: committed or not there, verified to the byte, kept and cleaned up."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from crashing_disk import Crash, failing
from hypothesis import given, settings
from hypothesis import strategies as st

from ucb_moppo.errors import DamagedFileError, FormatVersionError, RunFormatError, StorageError, UcbMoppoWarning
from ucb_moppo.store import checkpoint as module
from ucb_moppo.store.checkpoint import (
    FACTS,
    MANIFEST,
    STATE,
    Checkpoint,
    Checkpointer,
    clean_debris,
    find_checkpoint,
    list_checkpoints,
    read_checkpoint,
    write_checkpoint,
)
from ucb_moppo.store.lock import locked
from ucb_moppo.store.storage import make_digest


def make(number: int, run: Path | None = None) -> Checkpoint:
    """A small checkpoint whose content tells its number."""
    tensors = {
        "values": np.array([[number, np.nan], [np.inf, -0.0]]),
        "iteration": np.array(number),
        "keys": np.array([[1, 2**32 - 1]], np.uint32),
        "none": np.empty((0, 3), np.int64),
    }
    data = (run / "metrics.jsonl").read_bytes() if run is not None else b""
    return Checkpoint(
        f"{number:08d}-0001", tensors, {"lengths": {"metrics.jsonl": make_digest(data).to_json()}, "number": number}
    )


def assert_is(found: Checkpoint | None, number: int) -> None:
    assert found is not None
    expected = make(number)
    assert found.name == expected.name
    assert found.facts["number"] == number
    assert found.tensors.keys() == expected.tensors.keys()
    for name, array in expected.tensors.items():
        assert (found.tensors[name].dtype, found.tensors[name].shape) == (array.dtype, array.shape)
        assert found.tensors[name].tobytes() == array.tobytes()


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, make(7))
    assert_is(read_checkpoint(tmp_path, "00000007-0001"), 7)
    assert_is(find_checkpoint(tmp_path), 7)


def test_a_run_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert find_checkpoint(tmp_path) is None


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for number in (0, 9, 10, 100):
        write_checkpoint(tmp_path, make(number))
    assert list_checkpoints(tmp_path) == ["00000100-0001", "00000010-0001"]
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["00000010-0001", "00000100-0001"]


def test_two_that_verify_are_kept(tmp_path: Path) -> None:
    """A damaged one does not count; once two good ones are newer it goes like any other."""
    for number in (1, 2):
        write_checkpoint(tmp_path, make(number))
    state = tmp_path / "checkpoints" / "00000002-0001" / STATE
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    write_checkpoint(tmp_path, make(3))
    assert list_checkpoints(tmp_path) == ["00000003-0001", "00000002-0001", "00000001-0001"]
    write_checkpoint(tmp_path, make(4))
    assert list_checkpoints(tmp_path) == ["00000004-0001", "00000003-0001"]
    # A damaged one that is newer than where the run fell back to does not push out the good one before.
    state = tmp_path / "checkpoints" / "00000004-0001" / STATE
    state.write_bytes(b"")
    back = make(3)._replace(name="00000003-0002")
    write_checkpoint(tmp_path, back)
    assert list_checkpoints(tmp_path) == ["00000004-0001", "00000003-0002", "00000003-0001"]


def test_names_of_more_digits_sort_by_number(tmp_path: Path) -> None:
    for name in ("99999999-0001", "100000000-0002"):
        write_checkpoint(tmp_path, make(1)._replace(name=name))
    assert list_checkpoints(tmp_path) == ["100000000-0002", "99999999-0001"]


# --- damage ------------------------------------------------------------------------------------------------


@contextmanager
def two_checkpoints() -> Iterator[Path]:
    """Checkpoints 1 and 2. Hypothesis runs many examples per test, so tmp_path would be shared."""
    with tempfile.TemporaryDirectory() as name:
        run = Path(name)
        write_checkpoint(run, make(1))
        write_checkpoint(run, make(2))
        yield run


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([STATE, FACTS, MANIFEST]), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_flipped_byte_never_loads_as_something_else(file: str, where: float, mask: int) -> None:
    with two_checkpoints() as run:
        path = run / "checkpoints" / "00000002-0001" / file
        data = bytearray(path.read_bytes())
        data[int(where * len(data))] ^= mask
        path.write_bytes(data)
        assert_damaged(run, path)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([STATE, FACTS, MANIFEST]), st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_never_loads(file: str, where: float) -> None:
    with two_checkpoints() as run:
        path = run / "checkpoints" / "00000002-0001" / file
        os.truncate(path, int(where * path.stat().st_size))
        assert_damaged(run, path)


@pytest.mark.parametrize("file", [STATE, FACTS, MANIFEST])
def test_a_missing_file_never_loads(file: str) -> None:
    with two_checkpoints() as run:
        path = run / "checkpoints" / "00000002-0001" / file
        path.unlink()
        assert_damaged(run, path)


def fault_of(run: Path) -> RunFormatError | None:
    """What reading checkpoint 2 raises; None if it reads as what was written (white space of a manifest)."""
    try:
        assert_is(read_checkpoint(run, "00000002-0001"), 2)
    except RunFormatError as fault:
        return fault
    return None


def assert_damaged(run: Path, path: Path) -> None:
    """A typed error that names the file, and a way back; a changed format number is refused altogether."""
    fault = fault_of(run)
    assert fault is None or path.name in str(fault)
    if fault is not None and not isinstance(fault, FormatVersionError):
        with pytest.warns(UcbMoppoWarning, match=r"checkpoint 00000002-0001 cannot be used.*trying the one before"):
            assert_is(find_checkpoint(run), 1)


def test_without_a_good_checkpoint_every_damaged_file_is_named() -> None:
    with two_checkpoints() as run:
        (run / "checkpoints/00000001-0001" / STATE).write_bytes(b"")
        (run / "checkpoints/00000002-0001" / FACTS).unlink()
        with (
            pytest.warns(UcbMoppoWarning),
            pytest.raises(DamagedFileError, match=rf"no good checkpoint left.*{FACTS}.*{STATE}"),
        ):
            find_checkpoint(run)


def test_a_metrics_file_that_lost_bytes_takes_its_checkpoint_with_it(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_bytes(b"one\n")
    write_checkpoint(tmp_path, make(1, tmp_path))
    metrics.write_bytes(b"one\ntwo\n")
    write_checkpoint(tmp_path, make(2, tmp_path))
    metrics.write_bytes(b"one\ntwo\nthr")
    assert_is(find_checkpoint(tmp_path), 2)  # more than it had: a line that was being written
    metrics.write_bytes(b"one\ntXo\n")
    with pytest.warns(UcbMoppoWarning, match=r"metrics\.jsonl"):
        assert_is(find_checkpoint(tmp_path), 1)


@pytest.mark.parametrize(("version", "remedy"), [(module.FORMAT + 1, "upgrade ucb-moppo"), (0, "the version that")])
def test_other_format_versions_are_refused_with_the_remedy(tmp_path: Path, version: int, remedy: str) -> None:
    path = write_checkpoint(tmp_path, make(1)) / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": version}))
    with pytest.raises(FormatVersionError, match=rf"manifest\.json has format {version}.*{remedy}"):
        find_checkpoint(tmp_path)


# --- crashes and full disks --------------------------------------------------------------------------------


def count_calls(run: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    with failing(monkeypatch, 10**6, Crash) as made:
        write_checkpoint(run, make(3))
    return len(made)


def test_a_crash_at_any_call_leaves_the_old_or_the_new_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_checkpoints() as run:
        num_calls = count_calls(run, monkeypatch)
    assert num_calls > 10
    for at in range(num_calls):
        run = tmp_path / str(at)
        run.mkdir()
        write_checkpoint(run, make(1))
        write_checkpoint(run, make(2))
        with failing(monkeypatch, at, Crash), pytest.raises(Crash):
            write_checkpoint(run, make(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = find_checkpoint(run)
        assert found is not None
        assert_is(found, 3 if found.name == "00000003-0001" else 2)
        clean_debris(run)
        assert all(name[0] != "." for name in os.listdir(run / "checkpoints"))
        write_checkpoint(run, make(3))
        assert_is(find_checkpoint(run), 3)


def test_a_full_disk_names_the_file_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, make(1))

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with locked(tmp_path), monkeypatch.context() as patch:  # as whoever trains has it
        patch.setattr(os, "fsync", no_space)
        with pytest.raises(StorageError, match=r"00000002-0001: No space left on device; free some space.*resume"):
            write_checkpoint(tmp_path, make(2))
    assert os.listdir(tmp_path / "checkpoints") == ["00000001-0001"]
    assert_is(find_checkpoint(tmp_path), 1)


def test_debris_is_cleaned(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, make(1))
    shutil.copytree(tmp_path / "checkpoints/00000001-0001", tmp_path / "checkpoints/.00000002-0001.tmp")
    (tmp_path / ".front.csv.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    clean_debris(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["checkpoints", "notes.txt"]
    assert os.listdir(tmp_path / "checkpoints") == ["00000001-0001"]


# --- when --------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    return now


def saving(clock: list[float], cost: float, stages: int, seconds: float) -> tuple[Checkpointer, list[float]]:
    saved: list[float] = []

    def save() -> None:
        saved.append(clock[0])
        clock[0] += cost

    return Checkpointer(save, stages, seconds), saved


def test_saves_every_few_stages(clock: list[float]) -> None:
    keeper, saved = saving(clock, cost=0.0, stages=3, seconds=1e9)
    for stage in range(1, 9):
        clock[0] = stage
        keeper.after_iteration()
        keeper.after_stage(stage)
    assert saved == [3, 6]


def test_saves_within_a_stage_after_some_seconds(clock: list[float]) -> None:
    keeper, saved = saving(clock, cost=0.0, stages=100, seconds=10)
    for second in range(1, 35):
        clock[0] = second
        keeper.after_iteration()
    assert saved == [10, 20, 30]


def test_saving_after_stages_takes_at_most_two_percent(clock: list[float]) -> None:
    # A stage of 2 s and a checkpoint of 0.1 s, which is 2% of 5 s: every third stage is affordable.
    keeper, saved = saving(clock, cost=0.1, stages=1, seconds=1e9)
    keeper.now()
    for stage in range(1, 1001):
        clock[0] += 2
        keeper.after_stage(stage)
    assert len(saved) == 1 + 333
    assert keeper.cost == pytest.approx(33.4)
    assert keeper.cost / clock[0] < 0.02
