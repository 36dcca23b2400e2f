"""Files from others, damaged or made to hurt: reading them executes nothing and opens nothing outside."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_runs import random_tensors, rewrite
from tiny_runs import tiny_settings

import ucb_moppo
from ucb_moppo.config import resolve
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import (
    DamagedFileError,
    RunFormatError,
    RunLockedError,
    StorageError,
    UcbMoppoWarning,
    UnsafeFileError,
)
from ucb_moppo.store.checkpoint import Checkpoint, find_checkpoint, write_checkpoint
from ucb_moppo.store.guarded import check_name
from ucb_moppo.store.layout import LIMITS, MANIFEST
from ucb_moppo.store.lock import locked
from ucb_moppo.store.storage import dump_tensors, make_digest, parse_tensors
from ucb_moppo.store.writer import RunWriter
from ucb_moppo.training.record import make_facts
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run

SPEC = make_spec("Swimmer-v2", 20)
CONFIG = resolve(tiny_settings(), SPEC)


def make_run(path: Path) -> Path:
    """A run of two policies as the trainer leaves it, without the training."""
    path.mkdir(parents=True)
    tensors = random_tensors(SPEC, 2)
    weights = np.array([[[0.25, 0.75]], [[0.75, 0.25]]])
    writer = RunWriter(path, CONFIG.to_json(), SPEC)
    for stage in (0, 1):
        returns = np.array([[[1.0, 2.0 + stage]], [[2.0, 1.0]]])
        writer.write_stage(stage, {"stage": stage}, weights, returns, tensors, {"finished": stage == 1})
    lengths = {name: digest.to_json() for name, digest in writer.lengths().items()}
    facts = make_facts(CONFIG, SPEC) | {"lengths": lengths}
    write_checkpoint(path, Checkpoint("00000002-0002", {"iteration": np.array(2)}, facts))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("whole") / "run")


def read_everything(path: Path) -> Any:
    """All that reading a run can tell."""
    run = ucb_moppo.load(path)
    assert isinstance(run, ucb_moppo.Run)
    policy = run.policy([0.6, 0.4])
    return (
        run.config,
        run.summary,
        run.metrics(),
        {name: column.tobytes() for name, column in run.evaluations().items()},
        {name: column.tobytes() for name, column in run.table().items()},
        run.spec,
        {name: array.tobytes() for name, array in run.tensors().items()},
        policy.index,
        policy(np.ones(8)).tobytes(),
    )


# --- damage ------------------------------------------------------------------------------------------------


@contextmanager
def changed(path: Path, data: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def outcome(path: Path) -> Any:
    """What reading tells, or the fault it ends in."""
    try:
        return read_everything(path)
    except RunFormatError as fault:
        return fault


def assert_never_silently_wrong(whole: Path, expected: Any) -> None:
    found = outcome(whole)
    if isinstance(found, RunFormatError):
        assert any(name in str(found) for name in (*LIMITS, MANIFEST))
    else:
        assert found == expected


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*LIMITS, MANIFEST]), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_flipped_byte_in_any_file_is_found(whole: Path, name: str, where: float, mask: int) -> None:
    expected = read_everything(whole)
    data = bytearray((whole / name).read_bytes())
    data[int(where * len(data))] ^= mask
    with changed(whole / name, bytes(data)):
        assert_never_silently_wrong(whole, expected)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*LIMITS, MANIFEST]), st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_found(whole: Path, name: str, where: float) -> None:
    expected = read_everything(whole)
    data = (whole / name).read_bytes()
    with changed(whole / name, data[: int(where * len(data))]):
        assert_never_silently_wrong(whole, expected)


@pytest.mark.parametrize("name", [*LIMITS, MANIFEST])
def test_a_missing_file_is_named(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(RunFormatError, match=name):
        read_everything(run)


def test_half_a_line_at_the_end_is_one_being_written(run: Path) -> None:
    expected = read_everything(run)
    for name in ("metrics.jsonl", "evaluations.csv"):
        with (run / name).open("a") as file:
            file.write('{"stage": 2, "hyperv')
    assert read_everything(run) == expected


# --- hostile files -----------------------------------------------------------------------------------------


class Trap:
    """Executes something when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os._exit, (66,)


def with_header(header: dict[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


TENSOR_FILES = {
    "pickle": pickle.dumps(Trap()),
    "empty": b"",
    "header of 2^60 bytes": struct.pack("<Q", 2**60) + b"{}",
    "header longer than the file": struct.pack("<Q", 1000) + b"{}",
    "header that is a list": with_header([]),  # type: ignore[arg-type]
    "header nested too deep": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "offsets out of range": with_header({"a": entry("F32", [4], 0, 16)}, b"1234"),
    "offsets that overlap": with_header({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, b"123456"),
    "offsets that run backwards": with_header({"a": entry("U8", [4], 4, 0)}, b"1234"),
    "shape of 2^62 numbers": with_header({"a": entry("F64", [2**31, 2**31], 0, 8)}, b"12345678"),
    "negative shape": with_header({"a": entry("U8", [-4], 0, 4)}, b"1234"),
    "unknown type": with_header({"a": entry("OBJECT", [1], 0, 8)}, b"12345678"),
    "metadata that is a number": with_header({"__metadata__": 3}),
}


@pytest.mark.parametrize("data", TENSOR_FILES.values(), ids=TENSOR_FILES)
def test_hostile_tensors_are_refused(run: Path, tmp_path: Path, data: bytes) -> None:
    alone = tmp_path / "policy.safetensors"
    alone.write_bytes(data)
    with pytest.raises(RunFormatError, match=r"policy\.safetensors"):
        ucb_moppo.load(alone)
    # In a run whose manifest vouches for it, and in a checkpoint whose manifest does.
    vouch(run, "policies.safetensors", data)
    with pytest.raises(RunFormatError, match=r"policies\.safetensors"):
        read_everything(run)
    vouch(run / "checkpoints/00000002-0002", "state.safetensors", data)
    with pytest.warns(UcbMoppoWarning), pytest.raises(DamagedFileError, match=r"state\.safetensors"):
        resume_run(run, Silent())


def vouch(directory: Path, name: str, data: bytes) -> None:
    """Put a file there and make the manifest agree, as somebody who means harm would."""
    (directory / name).write_bytes(data)
    manifest = json.loads((directory / MANIFEST).read_text())
    digest = make_digest(data).to_json()
    manifest["files"][name] = [digest] if isinstance(manifest["files"][name], list) else digest
    (directory / MANIFEST).write_text(json.dumps(manifest))


JSON_FILES = {
    "nested too deep": b"[" * 100_000 + b"]" * 100_000,
    "a list": b"[]",
    "not UTF-8": b'{"a": "\xff"}',
    "NaN": b'{"stage": NaN}',
    "number of a million digits": b'{"a": ' + b"9" * 1_000_000 + b"}",
    "pickle": pickle.dumps(Trap()),
}


@pytest.mark.parametrize("data", JSON_FILES.values(), ids=JSON_FILES)
@pytest.mark.parametrize("name", ["config.json", "summary.json", "policies.json", "metrics.jsonl", MANIFEST])
def test_hostile_json_is_refused(run: Path, name: str, data: bytes) -> None:
    if name == MANIFEST:
        (run / name).write_bytes(data)
    else:
        vouch(run, name, data)
    with pytest.raises(RunFormatError, match=name):
        read_everything(run)


TABLES = {
    "ragged": b"policy,weight_1\n1\n",
    "too many cells": b"policy,weight_1\n1,2,3\n",
    "a word for a number": b"policy,weight_1,weight_2,return_1,return_2,on_front\nx,1,0,1,1,true\n",
    "a policy that is not there": b"policy,weight_1,weight_2,return_1,return_2,on_front\n7,1,0,1,1,true\n",
    "a policy below 0": b"policy,weight_1,weight_2,return_1,return_2,on_front\n-1,1,0,1,1,true\n",
    "a policy of a hundred digits": b"policy,weight_1,weight_2,return_1,return_2,on_front\n"
    + b"9" * 100
    + b",1,0,1,1,t\n",
    "a cell without end": b'policy,weight_1,weight_2\n"' + b"x" * 200_000,
    "no returns": b"policy,weight_1,weight_2\n0,1,0\n",
    "an infinite return": b"policy,weight_1,weight_2,return_1,return_2,on_front\n0,1,0,1,inf,true\n0,0,1,1,1,1\n",
    "nothing finite": b"policy,weight_1,weight_2,return_1,return_2,on_front\n0,1,0,nan,inf,true\n",
}


@pytest.mark.parametrize("data", TABLES.values(), ids=TABLES)
def test_hostile_tables_are_refused(run: Path, data: bytes) -> None:
    vouch(run, "front.csv", data)
    with pytest.raises(RunFormatError):
        ucb_moppo.load(run).policy([0.5, 0.5])  # type: ignore[union-attr]


SPECS = {
    "a trillion choices to observe": {"observation_size": 10**12, "discrete_observation": True},
    "a size that is a word": {"observation_size": "8"},
    "a size below 1": {"observation_size": -8},
    "no objectives": {"objectives": [], "reference_point": []},
    "bounds that do not fit": {"action": {"discrete": False, "size": 2, "low": [0], "high": [1], "start": 0}},
    "more actions than the network": {"action": {"discrete": True, "size": 3, "low": [], "high": [], "start": 0}},
    "choices of another number": {
        "action": {"discrete": False, "size": 2, "low": [0, 0], "high": [1, 1], "start": 0, "choices": [2]}
    },
    "choices that the network has no heads for": {
        "action": {"discrete": False, "size": 2, "low": [0, 0], "high": [1, 1], "start": 0, "choices": [2, 2]}
    },
    "parts of another size": {"observation_parts": [{"path": [], "shape": [3]}]},
    "a part of a trillion choices": {
        "observation_size": 10**12,
        "observation_parts": [{"path": [], "shape": [], "choices": [10**12], "start": [0]}],
    },
    "a start of four hundred digits": {
        "observation_parts": [{"path": [], "shape": [], "choices": [8], "start": [10**400]}]
    },
    "something unknown": {"colour": "blue"},
    "a size of four hundred digits": {"observation_size": 10**400},
    "a size that is true": {"horizon": True},
    "a number of four hundred digits": {"reference_point": [0, 10**400]},
    "a number that is a word": {"reference_point": [0, "inf"]},
}


@pytest.mark.parametrize("changes", SPECS.values(), ids=SPECS)
def test_hostile_problems_are_refused(run: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    policy = ucb_moppo.load(run).policy([0.5, 0.5])  # type: ignore[union-attr]
    header, tensors = parse_tensors(policy.save(tmp_path / "p.safetensors").read_bytes(), tmp_path)
    header["spec"] |= changes
    (tmp_path / "p.safetensors").write_bytes(dump_tensors(tensors, header))
    with pytest.raises(RunFormatError, match=r"p\.safetensors"):
        ucb_moppo.load(tmp_path / "p.safetensors")
    problem = json.loads((run / "policies.json").read_text())
    problem["spec"] |= changes
    vouch(run, "policies.json", json.dumps(problem).encode())
    with pytest.raises(RunFormatError, match=r"policies\."):
        ucb_moppo.load(run).policy([0.5, 0.5])  # type: ignore[union-attr]


CONDITIONINGS: dict[str, dict[str, Any]] = {
    "a weight that is a word": {"weight": ["0.5", 0.5]},
    "a weight too many": {"weight": [0.5, 0.25, 0.25]},
    "no weight": {"weight": None},
    "an index that is a word": {"index": "0"},
    "returns of four hundred digits": {"expected_returns": [1, 10**400]},
}


@pytest.mark.parametrize("changes", CONDITIONINGS.values(), ids=CONDITIONINGS)
def test_hostile_headers_are_refused(run: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    path = ucb_moppo.load(run).policy([0.5, 0.5]).save(tmp_path / "p.safetensors")  # type: ignore[union-attr]
    header, tensors = parse_tensors(path.read_bytes(), path)
    path.write_bytes(dump_tensors(tensors, header | changes))
    with pytest.raises(RunFormatError, match=r"p\.safetensors"):
        ucb_moppo.load(path)


DIGESTS: dict[str, Any] = {
    "a size below 0": {"bytes": -1, "sha256": "0"},
    "a size of four hundred digits": {"bytes": 10**400, "sha256": "0"},
    "a size that is true": {"bytes": True, "sha256": "0"},
    "a SHA-256 that is a number": {"bytes": 1, "sha256": 0},
    "no SHA-256": {"bytes": 1},
    "a list": [1, "0"],
}


@pytest.mark.parametrize("digest", DIGESTS.values(), ids=DIGESTS)
def test_hostile_digests_are_refused(run: Path, digest: Any) -> None:
    manifest = json.loads((run / MANIFEST).read_text())
    manifest["files"]["summary.json"] = [digest]
    (run / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedFileError, match=r"manifest\.json holds .* where a size and a SHA-256 should stand"):
        read_everything(run)


def test_a_policy_from_the_future_is_refused(run: Path, tmp_path: Path) -> None:
    path = ucb_moppo.load(run).policy([0.5, 0.5]).save(tmp_path / "p.safetensors")  # type: ignore[union-attr]
    header, tensors = parse_tensors(path.read_bytes(), path)
    path.write_bytes(dump_tensors(tensors, header | {"format": 99}))
    with pytest.raises(RunFormatError, match=r"p\.safetensors has format 99.*upgrade"):
        ucb_moppo.load(path)


# --- out of the directory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "", "C:\\secret", "a\0b", ".."])
def test_names_that_leave_the_directory_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeFileError, match="leads out of the directory"):
        check_name(tmp_path, name)


def test_a_manifest_cannot_name_other_files(run: Path) -> None:
    for directory in (run, run / "checkpoints/00000002-0002"):
        manifest = json.loads((directory / MANIFEST).read_text())
        manifest["files"]["../../secret"] = next(iter(manifest["files"].values()))
        (directory / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedFileError, match=MANIFEST):
        read_everything(run)
    with pytest.warns(UcbMoppoWarning), pytest.raises(DamagedFileError, match=MANIFEST):
        find_checkpoint(run)


@pytest.mark.parametrize("name", [*LIMITS, MANIFEST])
def test_links_are_not_followed_when_reading(run: Path, tmp_path: Path, name: str) -> None:
    shutil.move(run / name, tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFileError, match=rf"{name} is a link"):
        read_everything(run)


@pytest.mark.parametrize(
    "name",
    ["metrics.jsonl", "evaluations.csv", "checkpoints", ".lock", "checkpoints/00000002-0002/state.json"],
)
@pytest.mark.filterwarnings("ignore::ucb_moppo.errors.UcbMoppoWarning")
def test_links_are_not_followed_when_resuming(run: Path, tmp_path: Path, name: str) -> None:
    """Above all not to be written through: what they point to stays as it was."""
    victim = tmp_path / "victim"
    if (run / name).exists():
        shutil.move(run / name, victim)
    else:
        victim.write_bytes(b"precious")
    before = sorted((p.name, p.is_file() and p.read_bytes()) for p in [victim, *victim.glob("*/*")])
    (run / name).symlink_to(victim)
    with pytest.raises((RunFormatError, StorageError)):
        resume_run(run, Silent())
    assert sorted((p.name, p.is_file() and p.read_bytes()) for p in [victim, *victim.glob("*/*")]) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_does_not_block(run: Path) -> None:
    (run / "summary.json").unlink()
    os.mkfifo(run / "summary.json")
    with pytest.raises(UnsafeFileError, match=r"summary\.json is not a regular file"):
        read_everything(run)


def test_huge_files_are_refused_unread(run: Path) -> None:
    # Sparse: a hundred gigabytes that take no space on the disk but would in memory.
    for name in ("config.json", "metrics.jsonl", "front.csv", "policies.safetensors"):
        path = run / name
        size = path.stat().st_size
        os.truncate(path, 100 * 2**30)
        with pytest.raises(UnsafeFileError, match=rf"{name} has 107,374,182,400 bytes"):
            read_everything(run)
        os.truncate(path, size)
    read_everything(run)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited in another way here")
def test_hostile_sizes_take_no_memory(run: Path, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in TENSOR_FILES.values():
        (tmp_path / "p.safetensors").write_bytes(data)
        with pytest.raises(RunFormatError):
            ucb_moppo.load(tmp_path / "p.safetensors")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


# What workers say to processes that they have started themselves; it opens no file.
SPEAKS_TO_OWN_PROCESSES = {"runtime/worker.py"}


def test_a_lock_that_is_another_file_too_is_refused(tmp_path: Path) -> None:
    """A hard link: writing the holder's number into it would change the other file."""
    other = tmp_path / "precious"
    other.write_text("untouched")
    (tmp_path / "run").mkdir()
    os.link(other, tmp_path / "run" / ".lock")
    with pytest.raises(UnsafeFileError, match=r"\.lock is not a file of its own"), locked(tmp_path / "run"):
        pass
    assert other.read_text() == "untouched"


def test_a_deleted_lock_file_admits_nobody(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with locked(run):
        (run / "config.json").touch()
        (run / ".lock").unlink()
        with pytest.raises(RunLockedError), locked(run):
            pass
    with locked(run):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_no_lock(tmp_path: Path) -> None:
    """It lives on when the parent has let go, or is gone."""
    run, (reading, writing_end) = tmp_path / "run", os.pipe()
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from ucb_moppo.store.lock import locked\n"
        f"with locked(Path({str(run)!r})):\n"
        f"    Path({str(run / 'config.json')!r}).touch()\n"
        "    if os.fork() == 0:\n"
        "        os.write(1, b'forked')\n"
        f"        os.read({reading}, 1)\n"
        "        os._exit(0)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, pass_fds=[reading], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.read(6) == b"forked"
        with pytest.raises(RunLockedError), locked(run):
            pass
        parent.kill()
        parent.wait()
        with locked(run):  # the child is still there
            pass
        os.write(writing_end, b"x")


def test_parameters_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    tensors = {name: array.copy() for name, array in ucb_moppo.load(run).tensors().items()}  # type: ignore[union-attr]
    tensors["actor.head.bias"][1, 0] = np.nan
    rewrite(run, "policies.safetensors", dump_tensors(tensors))
    with pytest.raises(RunFormatError, match=r"actor\.head\.bias holds numbers that are not finite"):
        ucb_moppo.load(run).tensors()  # type: ignore[union-attr]


def test_nothing_that_reads_imports_pickle() -> None:
    source = Path(ucb_moppo.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text()
        if path.relative_to(source).as_posix() in SPEAKS_TO_OWN_PROCESSES:
            assert not any(word in text for word in (" open(", "read_bytes", "read_text", "pickle.load(")), path
        else:
            assert "import pickle" not in text, path
        assert "allow_pickle" not in text, path
