"""Kernels that are kept: by whom they may be put there, what is left of a damaged one, and that no bit changes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from compiled_kernels import CACHE
from tiny_runs import assert_same, tiny_options, train_tiny

from ucb_moppo import compile_cache
from ucb_moppo.compile_cache import (
    SETTING,
    cache_folder,
    entries,
    is_whole,
    make_private,
    processor_name,
    tidy,
    use_compile_cache,
    why_unusable,
)

WHOLE = zlib.compress(bytes(i * i % 251 for i in range(4000)))


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user who has set nothing, with a home of their own."""
    for name in (SETTING, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


# --- where -------------------------------------------------------------------------------------------------


def test_the_folder_is_in_the_users_cache_and_belongs_to_the_processor(
    unset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == unset / ".cache" / "ucb-moppo" / "compiled" / processor_name()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == unset / "Library" / "Caches" / "ucb-moppo" / "compiled" / processor_name()
    monkeypatch.setenv("XDG_CACHE_HOME", str(unset / "elsewhere"))
    assert cache_folder() == unset / "elsewhere" / "ucb-moppo" / "compiled" / processor_name()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/are/invalid")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == unset / ".cache" / "ucb-moppo" / "compiled" / processor_name()


def test_the_setting_names_another_folder_or_none(unset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "~/kernels")
    assert cache_folder() == unset / "kernels" / processor_name()
    for word in ("off", "OFF", "0", "no", "false", ""):
        monkeypatch.setenv(SETTING, word)
        assert cache_folder() is None


def test_another_processor_has_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = processor_name()
    monkeypatch.setattr(compile_cache.platform, "processor", lambda: "one that was not built yet")
    assert processor_name() != before


# --- whose -------------------------------------------------------------------------------------------------


def test_folders_are_made_private_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = make_private(tmp_path / "cache" / "ours")
    finally:
        os.umask(before)
    assert [place.stat().st_mode & 0o777 for place in (folder.parent, folder)] == [0o700, 0o700]
    assert why_unusable(folder) == ""


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = make_private(tmp_path / "ours")
    folder.chmod(mode)
    assert why_unusable(folder) == f"others can write to {folder}: chmod go-w it"


def test_so_is_one_that_others_can_put_another_in_the_place_of(tmp_path: Path) -> None:
    folder = make_private(tmp_path / "above" / "ours")
    folder.parent.chmod(0o777)
    assert why_unusable(folder) == f"others can write to {folder.parent}: chmod go-w it"
    folder.parent.chmod(0o1777)  # like /tmp: what is ours stays ours
    assert why_unusable(folder) == ""


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_private(tmp_path / "ours")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert why_unusable(folder) == f"{folder} belongs to another user"


def test_a_folder_that_is_not_there_is_judged_by_where_it_would_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = make_private(tmp_path / "shared")
    folder = shared / "ours" / "kernels"
    assert why_unusable(folder) == ""
    shared.chmod(0o1777)  # like /tmp: what is made there stays ours
    assert why_unusable(folder) == ""
    shared.chmod(0o777)
    assert why_unusable(folder) == f"others can write to {shared}: chmod go-w it"
    shared.chmod(0o700)
    monkeypatch.setattr(os, "access", lambda path, mode: path != shared)
    assert why_unusable(folder) == f"{shared} cannot be written to"
    (shared / "ours").write_text("a file")
    assert why_unusable(folder) == f"{shared / 'ours'} is no folder"


def test_links_are_followed_before_anything_is_judged(tmp_path: Path) -> None:
    real = make_private(tmp_path / "above" / "real")
    (tmp_path / "link").symlink_to(real)
    assert make_private(tmp_path / "link") == real
    real.parent.chmod(0o777)
    assert "others can write" in why_unusable(make_private(tmp_path / "link"))


def test_a_full_disk_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    assert why_unusable(make_private(tmp_path / "ours")).endswith("is full")


# --- what JAX is told --------------------------------------------------------------------------------------


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What JAX, which knows of no cache yet, is told."""
    found: dict[str, object] = {}
    config = SimpleNamespace(jax_compilation_cache_dir=None, update=found.__setitem__)
    monkeypatch.setattr(jax, "config", config)
    return found


def test_jax_is_told_of_the_folder(
    told: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path / "kernels"))
    use_compile_cache()
    assert told["jax_compilation_cache_dir"] == str(tmp_path / "kernels" / processor_name())


def test_it_is_not_where_there_is_one_already(
    told: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path / "kernels"))
    monkeypatch.setattr(jax.config, "jax_compilation_cache_dir", "the user's own", raising=False)
    use_compile_cache()
    assert told == {}
    assert not (tmp_path / "kernels").exists()


def test_it_is_not_where_the_folder_cannot_be_made(
    told: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    monkeypatch.setenv(SETTING, str(tmp_path / "file"))
    use_compile_cache()
    assert told == {}


def test_it_is_not_where_others_can_write(
    told: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path / "kernels"))
    make_private(tmp_path / "kernels").chmod(0o777)
    use_compile_cache()
    assert told == {}


# --- what is kept ------------------------------------------------------------------------------------------


def put(folder: Path, name: str, data: bytes, age: float) -> Path:
    """An entry that was last used ``age`` seconds ago."""
    entry = folder / f"{name}-cache"
    entry.write_bytes(data)
    os.utime(entry, (time.time() - age,) * 2)
    return entry


def test_an_entry_that_was_cut_short_goes_unless_it_is_being_written(tmp_path: Path) -> None:
    whole, fresh = put(tmp_path, "whole", WHOLE, 100), put(tmp_path, "fresh", WHOLE[:50], 1)
    put(tmp_path, "cut", WHOLE[:50], 100)
    put(tmp_path, "empty", b"", 100)
    flipped = bytearray(WHOLE)
    flipped[20] ^= 1
    put(tmp_path, "flipped", bytes(flipped), 100)
    tidy(tmp_path)
    assert set(entries(tmp_path)) == {whole, fresh}
    assert whole.stat().st_mode & 0o777 == 0o400
    assert fresh.stat().st_mode & 0o200


def test_an_entry_that_was_found_whole_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "whole", WHOLE, 100)
    tidy(tmp_path)
    monkeypatch.setattr(compile_cache, "is_whole", lambda data: pytest.fail("it was read again"))
    tidy(tmp_path)


def test_what_another_library_has_compressed_is_left_to_jax() -> None:
    assert is_whole(b"\x28\xb5\x2f\xfd, as zstandard begins")
    assert not is_whole(b"")


def test_the_entries_that_were_not_used_for_longest_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of the same size where two and a half have room: the oldest two go."""
    monkeypatch.setattr(compile_cache, "MAX_BYTES", len(WHOLE) * 5 // 2)
    for age in (100, 300, 200, 400):
        put(tmp_path, str(age), WHOLE, age).chmod(0o400)
    tidy(tmp_path)
    assert {entry.name for entry in entries(tmp_path)} == {"100-cache", "200-cache"}


# --- bits --------------------------------------------------------------------------------------------------


def test_a_run_that_compiles_and_one_that_does_not_have_the_same_bits(tmp_path: Path) -> None:
    """They have those of the run of this process, too, whose kernels come from elsewhere. A kernel that is damaged
    between the two is compiled again without a word."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {SETTING: str(tmp_path / "kernels"), "JAX_LOG_COMPILES": "1"}
    assert CACHE not in environment
    folder, loaded = tmp_path / "kernels" / processor_name(), []
    for name in ("cold", "warm"):
        command = [sys.executable, "-m", "ucb_moppo", "train", *tiny_options(), "--out", str(tmp_path / name)]
        done = subprocess.run([*command, "--quiet"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Error reading" not in done.stderr
        loaded.append(set(re.findall(r"cache hit for '.*?' with key '(.*?)'", done.stderr)))
        if name == "cold":
            kept = sorted(entry.name.removesuffix("-cache") for entry in entries(folder))
            os.truncate(folder / f"{kept[0]}-cache", 100)
    assert len(kept) > 10
    assert loaded[0] == set()
    assert loaded[1] == set(kept[1:])
    assert_same(tmp_path / "cold", tmp_path / "warm")
    assert_same(tmp_path / "cold", train_tiny(tmp_path / "here").path)
