"""A stage appears whole or not at all, wherever its writer is stopped; a run that was loaded stays as it was."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crashing_disk import Crash, failing
from sample_runs import random_tensors, sample_spec

from ucb_moppo.errors import RunFormatError
from ucb_moppo.store.layout import MANIFEST, next_name
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import Digest, make_digest
from ucb_moppo.store.writer import RunWriter

SPEC = sample_spec(2)
WEIGHTS = np.array([[[0.25, 0.75]], [[0.75, 0.25]]])
CONFIG = {"problem": SPEC.name}


def begin(path: Path, lengths: dict[str, Digest] | None = None) -> RunWriter:
    path.mkdir(exist_ok=True)
    return RunWriter(path, CONFIG, SPEC, lengths or {})


def write_stage(writer: RunWriter, stage: int) -> None:
    """A stage whose every file says which it is."""
    tensors = {name: array + np.float32(stage) for name, array in random_tensors(SPEC, 2).items()}
    writer.write_stage(stage, {"stage": stage}, WEIGHTS, WEIGHTS + stage, tensors, {"stage": stage})


def stages_in(run: Run) -> list[Any]:
    """What each of the files says the stage is."""
    return [
        run.summary["stage"],
        len(run.metrics()) - 1,
        int(run.evaluations()["stage"].max()),
        int((run.evaluated().returns - run.evaluated().weights).max()),
        int(run.tensors()["observation.mean"].max()),
    ]


def test_a_writer_stopped_at_any_call_leaves_one_stage_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing(monkeypatch, 10**6) as calls:
        writer = begin(tmp_path / "counted")
        write_stage(writer, 0)
        before = len(calls)
        write_stage(writer, 1)
        num_calls = len(calls) - before
    assert num_calls > 15
    seen = set()
    for at in range(num_calls):
        path = tmp_path / str(at)
        writer = begin(path)
        write_stage(writer, 0)
        saved = writer.lengths()
        with failing(monkeypatch, at), pytest.raises(Crash):
            write_stage(writer, 1)
        found = stages_in(Run(path))
        assert found == [found[0]] * 5
        seen.add(found[0])
        continue_from(path, saved, found[0])
    assert seen == {0, 1}


def continue_from(path: Path, saved: dict[str, Digest], shown: int) -> None:
    """Resume from stage 0: what was shown stays until the new stage is there, then everything is of that."""
    writer = begin(path, saved)
    assert stages_in(Run(path)) == [shown] * 5
    assert not list(path.glob(".*.next"))
    write_stage(writer, 1)
    write_stage(writer, 2)
    assert stages_in(Run(path)) == [2] * 5
    assert [line["stage"] for line in Run(path).metrics()] == [0, 1, 2]


def test_a_writer_that_continues_and_is_stopped_at_any_call_leaves_one_stage_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a checkpoint that is older than what the run shows, so that its growing files are cut back."""
    writer = begin(tmp_path / "run")
    write_stage(writer, 0)
    saved = writer.lengths()
    write_stage(writer, 1)
    for at in range(10**3):
        path = Path(shutil.copytree(tmp_path / "run", tmp_path / str(at)))
        with failing(monkeypatch, at):
            try:
                write_stage(begin(path, saved), 1)
            except Crash:
                pass
            else:
                break
        found = stages_in(Run(path))
        assert found == [1] * 5
    assert at > 20


def test_a_loaded_run_stays_at_its_stage(tmp_path: Path) -> None:
    writer = begin(tmp_path / "run")
    write_stage(writer, 0)
    run = Run(tmp_path / "run")
    assert run.summary["stage"] == 0
    write_stage(writer, 1)
    assert stages_in(run) == [0] * 5
    assert stages_in(Run(tmp_path / "run")) == [1] * 5


def test_a_loaded_run_stays_where_a_link_led_to_it(tmp_path: Path) -> None:
    """Else what is read later would be of another run: its config of one, its policies of the other."""
    for stage, name in enumerate(("one", "other")):
        write_stage(begin(tmp_path / name), stage)
    latest = tmp_path / "latest"
    latest.symlink_to("one")
    run = Run(latest)
    latest.unlink()
    latest.symlink_to("other")
    assert run.summary["stage"] == 0
    assert Run(latest).summary["stage"] == 1


def test_a_run_that_goes_on_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = begin(tmp_path / "run")
    write_stage(writer, 0)
    import ucb_moppo.store.layout as layout

    read, stage = layout._read_one, 0

    def slowly(run: Path, name: str, *rest: Any) -> bytes:
        nonlocal stage
        if name == "summary.json" and stage < 3:
            stage += 1
            write_stage(writer, stage)
        return read(run, name, *rest)

    monkeypatch.setattr(layout, "_read_one", slowly)
    assert stages_in(Run(tmp_path / "run")) == [3] * 5


def make_old(path: Path, renamed: tuple[str, ...]) -> Path:
    """A run of an older version, killed while it renamed: its manifest lists two digests of each file."""
    writer = begin(path)
    write_stage(writer, 0)
    files = ("front.csv", "policies.safetensors", "summary.json")
    before = {name: (path / name).read_bytes() for name in files}
    write_stage(writer, 1)
    manifest = json.loads((path / MANIFEST).read_text())
    for name in files:
        manifest["files"][name].append(make_digest(before[name]).to_json())
        if name not in renamed:
            (path / name).write_bytes(before[name])
    (path / MANIFEST).write_text(json.dumps(manifest))
    return path


def test_an_older_run_loads_where_its_stage_is_whole(tmp_path: Path) -> None:
    new = Run(make_old(tmp_path / "new", ("front.csv", "policies.safetensors", "summary.json")))
    assert stages_in(new) == [1] * 5
    old = Run(make_old(tmp_path / "old", ()))
    assert stages_in(old)[3:] == [0, 0]
    assert old.summary["stage"] == 0


@pytest.mark.parametrize("renamed", [("front.csv",), ("front.csv", "policies.safetensors"), ("summary.json",)])
def test_an_older_run_that_mixes_two_stages_is_refused(tmp_path: Path, renamed: tuple[str, ...]) -> None:
    with pytest.raises(RunFormatError, match=r"does not match manifest\.json|has .* bytes"):
        Run(make_old(tmp_path / "run", renamed)).evaluated()


def test_a_file_that_no_manifest_knows_is_not_read(tmp_path: Path) -> None:
    """One left by a run whose manifest was damaged may be of any stage."""
    writer = begin(tmp_path / "run")
    write_stage(writer, 0)
    manifest = json.loads((tmp_path / "run" / MANIFEST).read_text())
    del manifest["files"]["front.csv"]
    (tmp_path / "run" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(RunFormatError, match=r"no front\.csv yet"):
        Run(tmp_path / "run").evaluated()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_of_a_next_stage_is_dropped(tmp_path: Path, kind: str) -> None:
    writer = begin(tmp_path / "run")
    write_stage(writer, 0)
    place, victim = tmp_path / "run" / next_name("front.csv"), tmp_path / "victim"
    victim.write_bytes((tmp_path / "run/front.csv").read_bytes())
    {"pipe": os.mkfifo, "link": lambda path: path.symlink_to(victim), "folder": Path.mkdir}[kind](place)
    assert stages_in(Run(tmp_path / "run")) == [0] * 5
    write_stage(begin(tmp_path / "run", writer.lengths()), 1)
    assert stages_in(Run(tmp_path / "run")) == [1] * 5
    assert victim.exists()


def test_files_of_a_stage_that_was_never_committed_are_dropped(tmp_path: Path) -> None:
    writer = begin(tmp_path / "run")
    write_stage(writer, 0)
    (tmp_path / "run" / next_name("front.csv")).write_bytes(b"of no stage")
    assert stages_in(Run(tmp_path / "run")) == [0] * 5
    begin(tmp_path / "run", writer.lengths())
    assert not (tmp_path / "run" / next_name("front.csv")).exists()
    assert stages_in(Run(tmp_path / "run")) == [0] * 5
