"""Files in somebody else's directory: no link is followed, nothing blocks, nothing foreign is changed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sample_runs import SampleRun

from ucb_moppo.errors import DamagedFileError, StorageError, UnsafeFileError
from ucb_moppo.store import guarded
from ucb_moppo.store.checkpoint import Checkpoint, write_checkpoint
from ucb_moppo.store.guarded import (
    append_file,
    file_size,
    open_folder,
    open_log,
    read_bytes,
    replace_file,
    sync_directory,
    write_below,
    write_file,
)
from ucb_moppo.store.lock import locked
from ucb_moppo.store.picture import draw_front
from ucb_moppo.training.interpolate import STUDY_FILE, read_study


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file outside the directory, which must stay as it is."""
    path = tmp_path / "victim"
    path.write_bytes(b"precious")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_a_link_on_the_way_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"secret")
    (root / "videos").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafeFileError, match="videos is a link"):
        read_bytes(root, "videos/file", 100)
    with pytest.raises(UnsafeFileError, match="videos is a link"):
        replace_file(root, "videos/file", b"overwritten")
    assert (tmp_path / "outside/file").read_bytes() == b"secret"


def test_a_folder_exchanged_for_a_link_leads_nowhere(root: Path, tmp_path: Path) -> None:
    """After it was opened, before anything is written: the race of whoever may write beside us."""
    (tmp_path / "outside").mkdir()
    (root / "videos").mkdir()
    with open_folder(root, "videos") as folder:
        (root / "videos").rename(root / "moved")
        (root / "videos").symlink_to(tmp_path / "outside")
        folder.write_new("file", b"ours")
    assert not list((tmp_path / "outside").iterdir())
    assert (root / "moved/file").read_bytes() == b"ours"


@pytest.mark.parametrize("name", ["file", ".file.tmp"])
@pytest.mark.parametrize("how", ["symlink", "hard link"])
def test_what_is_replaced_is_never_what_a_link_points_to(root: Path, victim: Path, name: str, how: str) -> None:
    (root / name).symlink_to(victim) if how == "symlink" else os.link(victim, root / name)
    replace_file(root, "file", b"new")
    assert victim.read_bytes() == b"precious"
    assert (root / "file").read_bytes() == b"new"


@pytest.mark.parametrize("how", ["symlink", "hard link"])
def test_nothing_is_appended_to_a_file_with_another_name(root: Path, victim: Path, how: str) -> None:
    (root / "file").symlink_to(victim) if how == "symlink" else os.link(victim, root / "file")
    with pytest.raises(UnsafeFileError):
        append_file(root, "file", b"more", 0)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("how", ["symlink", "hard link", "dangling"])
def test_a_log_is_a_file_of_its_own(root: Path, victim: Path, how: str) -> None:
    if how == "hard link":
        os.link(victim, root / "log")
    else:
        (root / "log").symlink_to(victim if how == "symlink" else victim.with_name("new"))
    with pytest.raises(UnsafeFileError, match=r"log (is a link|has another name)"):
        open_log(root / "log")
    assert (victim.read_bytes(), victim.with_name("new").exists()) == (b"precious", False)


def test_a_log_grows(root: Path) -> None:
    for line in (b"one\n", b"two\n"):
        with open_log(root / "log") as file:
            file.write(line)
    assert (root / "log").read_bytes() == b"one\ntwo\n"


def test_folders_on_the_way_are_made_and_links_among_them_refused(root: Path, tmp_path: Path) -> None:
    write_below(root / "new", "figures/small/one.png", b"1")
    write_below(root / "new", "figures/small/one.png", b"2")
    assert (root / "new/figures/small/one.png").read_bytes() == b"2"
    (tmp_path / "outside").mkdir()
    (root / "new/tables").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafeFileError, match="tables is a link"):
        write_below(root / "new", "tables/one.csv", b"1")
    assert list((tmp_path / "outside").iterdir()) == []


def test_what_is_appended_follows_what_is_known(root: Path) -> None:
    append_file(root, "file", b"one\n", 0)
    (root / "file").open("ab").write(b"half a li")
    append_file(root, "file", b"two\n", 4)
    assert (root / "file").read_bytes() == b"one\ntwo\n"
    with pytest.raises(DamagedFileError, match="has lost bytes: 8 of 9"):
        append_file(root, "file", b"three\n", 9)


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder"])
def test_what_is_no_file_is_refused_at_once(root: Path, kind: str) -> None:
    """To be read and to be appended to; a device only where it can be made or linked to."""
    import socket

    if kind == "pipe":
        os.mkfifo(root / "file")
    elif kind == "folder":
        (root / "file").mkdir()
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(root / "file"))
    else:
        (root / "file").symlink_to("/dev/zero")
    with pytest.raises(UnsafeFileError):
        read_bytes(root, "file", 100)
    with pytest.raises(UnsafeFileError):
        append_file(root, "file", b"more", 0)


def test_no_more_is_set_aside_than_there_is(root: Path) -> None:
    """A limit of terabytes costs nothing."""
    (root / "file").write_bytes(b"small")
    assert read_bytes(root, "file", 1 << 45) == b"small"
    assert file_size(root, "nothing") is None


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "outside"])
def test_a_study_that_is_no_file_is_refused(tmp_path: Path, victim: Path, kind: str) -> None:
    run = SampleRun().write(tmp_path / "run")
    place = run / STUDY_FILE
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if kind == "device" else victim)
    with pytest.raises(UnsafeFileError, match=STUDY_FILE):
        read_study(run)


def test_a_picture_does_not_go_through_a_link(tmp_path: Path, victim: Path) -> None:
    from ucb_moppo.store.run import Run

    run = SampleRun().write(tmp_path / "run")
    (run / "front.png").symlink_to(victim)
    draw_front(Run(run), run / "front.png")
    assert victim.read_bytes() == b"precious"
    assert (run / "front.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_that_the_user_names_may_have_any_name(root: Path) -> None:
    write_file(root / "10:30 \\ front.csv", b"new")
    assert [path.name for path in root.iterdir()] == ["10:30 \\ front.csv"]


# --- what is said of a write that failed -------------------------------------------------------------------


def refused(write: Callable[[], Any]) -> str:
    with pytest.raises(StorageError) as fault:
        write()
    return str(fault.value)


def test_resuming_is_no_remedy_where_there_is_nothing_to_resume(tmp_path: Path) -> None:
    """No run at all, one that another process may write, and one that has no checkpoint yet."""
    (tmp_path / "file").write_bytes(b"")
    said = refused(lambda: write_file(tmp_path / "file/policy.onnx", b"1"))
    assert said == (
        f"cannot write {tmp_path}/file/policy.onnx: Not a directory; check the path and its permissions"
    )
    assert "resume" not in refused(lambda: write_below(tmp_path / "file/report", "index.html", b"1"))
    run = tmp_path / "run"
    run.mkdir()
    with locked(run):
        assert "resume" not in refused(lambda: replace_file(run, "nowhere/front.csv", b"1"))
    write_checkpoint(run, Checkpoint("00000001-0001", {}, {}))
    assert "resume" not in refused(lambda: replace_file(run, "videos/1.mp4", b"1"))


def test_it_is_one_where_a_run_with_a_checkpoint_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    with locked(Path("run")):
        write_checkpoint(run, Checkpoint("00000001-0001", {}, {}))
        for root in (run, Path("run")):
            said = refused(lambda root=root: replace_file(root, "nowhere/front.csv", b"1"))  # type: ignore[misc]
            assert said == (
                f"cannot write {root}/nowhere/front.csv: No such file or directory; check the path and its "
                "permissions, then continue with `ucb-moppo resume`"
            )
        assert "resume" not in refused(lambda: write_file(tmp_path / "nowhere/front.csv", b"1"))


# --- directories that are gone -----------------------------------------------------------------------------


def test_a_file_system_that_syncs_no_directory_is_no_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync, refused = os.fsync, []

    def only_files(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            refused.append(descriptor)
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    replace_file(root, "file", b"new")
    sync_directory(root)
    assert (root / "file").read_bytes() == b"new"
    assert len(refused) == 2


def test_another_fault_of_syncing_a_directory_is_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StorageError, match="Input/output error"):
        replace_file(root, "file", b"new")


SECOND = """
import sys
from pathlib import Path
from ucb_moppo.store.lock import locked
from ucb_moppo.store.guarded import replace_file
run = Path(sys.argv[1])
with locked(run):
    replace_file(run, "config.json", b"{}")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "deleted, and another process began anew"])
def test_a_writer_whose_directory_was_deleted_stops(tmp_path: Path, replaced: bool) -> None:
    """It writes nothing into the run of a stranger, and puts nothing where its own was."""
    run = tmp_path / "run"
    with locked(run):
        replace_file(run, "config.json", b"{}")
        guarded.shutil.rmtree(run)
        command = [sys.executable, "-c", SECOND if replaced else "", str(run)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as second:
            assert second.stdout is not None
            second.stdout.readline()
            with pytest.raises(StorageError, match="deleted or moved while this process was writing it"):
                replace_file(run, "front.csv", b"")
            with pytest.raises(StorageError, match="deleted or moved"):
                append_file(run, "metrics.jsonl", b"", 0)
            with pytest.raises(StorageError, match="deleted or moved"):
                write_checkpoint(run, Checkpoint("00000001-0001", {}, {}))
            found = sorted(os.listdir(run)) if run.exists() else None
            second.communicate(b"")
    assert found == ([".lock", "config.json"] if replaced else None)
    assert run.exists() == replaced


def test_the_same_process_does_not_begin_anew_where_it_is_still_writing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with locked(run):
        replace_file(run, "config.json", b"{}")
        guarded.shutil.rmtree(run)
        with pytest.raises(StorageError, match="deleted or moved"), locked(run):
            pass


def test_what_is_let_go_while_another_thread_opens_it_is_read_all_the_same(tmp_path, monkeypatch):
    """A run that ends in one thread while another reads it: its descriptor was closed between two calls."""
    looking, check, found = threading.Event(), guarded.check_still_there, []

    def check_slowly(root, own):
        looking.set()
        time.sleep(0.2)
        check(root, own)

    monkeypatch.setattr(guarded, "check_still_there", check_slowly)
    (tmp_path / "file").write_bytes(b"whole")
    reader = threading.Thread(target=lambda: found.append(guarded.read_bytes(tmp_path, "file", 10)))
    with guarded.open_folder(tmp_path) as folder:
        own = os.dup(folder.descriptor)
    with guarded.meaning(tmp_path, own):
        reader.start()
        assert looking.wait(10)
    os.close(own)
    reader.join(10)
    assert found == [b"whole"]
