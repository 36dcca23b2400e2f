"""The process that renders: what it prints, how long it may take, and that nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sample_runs import SampleRun

pytest.importorskip("imageio_ffmpeg", reason="videos are not installed: pip install 'ucb-moppo[viewer]'")

from ucb_moppo.errors import UnsafeFileError
from ucb_moppo.store.run import Run
from ucb_moppo.viewer import renderer as module
from ucb_moppo.viewer.renderer import Renderer, parse_told, render_rows
from ucb_moppo.viewer.video import Told, Video, find_video, read_video, remove_outdated, video_name

START = module.start


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return SampleRun(num_policies=2, probes=2).write(tmp_path / "run")


@pytest.mark.parametrize(
    "line", ["{", "{}", "[]", "3", '{"row": "0"}', '{"row": 7}', '{"row": 0, "share": "x"}', "{" * 10**5, "", "\0"]
)
def test_what_an_environment_prints_is_nothing_told(line: str) -> None:
    assert parse_told(line, [0]) is None


def test_what_a_renderer_tells_is_told() -> None:
    assert parse_told('{"row": 0, "share": 0.5}\n', [0]) == Told(0, 0.5)


def playing(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let the renderer be a program of the test's own."""
    monkeypatch.setattr(module, "start", lambda command: START([sys.executable, "-c", program]))


def test_one_failure_leaves_the_next_video_working(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = Renderer()
    playing(monkeypatch, "print('{not json'); print('{\"row\": {}}'); import sys; sys.exit('out of paint')")
    renderer.request(run, 0)
    assert wait_until(lambda: renderer.progress(run, 0).state == "failed")
    assert renderer.progress(run, 0).error == "rendering stopped: out of paint"
    monkeypatch.setattr(module, "start", lambda command: 1 / 0)
    renderer.request(run, 1)
    assert wait_until(lambda: renderer.progress(run, 1).state == "failed")
    assert "ZeroDivisionError" in renderer.progress(run, 1).error
    playing(monkeypatch, 'print(\'{"row": 2, "done": true}\')')
    renderer.request(run, 2)
    assert wait_until(lambda: renderer.progress(run, 2).state == "missing")  # done, were there a file


def wait_until(condition, seconds: float = 60) -> bool:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_a_renderer_that_says_nothing_for_too_long_is_ended(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, "import time; time.sleep(600)")
    (told,) = render_rows(run, [0], seconds=1.5)
    assert told.error == "rendering stopped: nothing came of it for 1.5 seconds"


def test_a_renderer_may_not_take_all_memory(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import numpy as np\nfrom ucb_moppo.viewer import video\n"
        "video.render_row = lambda *_: np.ones(6 * 2**27)\n"
        "video.be_child(lambda: video.main(['.', '0']))"
    )
    monkeypatch.chdir(run)
    playing(monkeypatch, program)
    (told,) = render_rows(run, [0])
    assert "MemoryError" in told.error


VIEWER = """
import sys, threading
from pathlib import Path
from ucb_moppo.viewer import renderer
start = renderer.start
child = "import time; from ucb_moppo.viewer.video import end_with_parent; end_with_parent(); time.sleep(600)"

def noting(command):
    process = start([sys.executable, "-P", "-c", child])
    print(process.pid, flush=True)
    return process

renderer.start = noting
renderer.Renderer().request(Path(sys.argv[1]), 0)
threading.Event().wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc who is running")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_renderer_outlives_the_viewer(run: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", VIEWER, str(run)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as viewer:
        assert viewer.stdout is not None
        child = Path("/proc") / viewer.stdout.readline().decode().strip()
        assert is_running(child)
        viewer.send_signal(number)
        viewer.wait(60)
        assert wait_until(lambda: not is_running(child))


def is_running(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_beside_a_run_is_executed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a module of a name that the renderer imports, in the directory that it is started from."""
    for name in ("safetensors", "msgspec", "numpy", "ctypes"):
        (run / f"{name}.py").write_text(f"open({str(run / 'executed')!r}, 'w')")
    monkeypatch.chdir(run)
    (told,) = render_rows(run, [0])
    assert told.error
    assert not (run / "executed").exists()


# --- links ---------------------------------------------------------------------------------------------------


def test_a_video_that_is_a_link_is_none(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (run / "videos").mkdir()
    name = video_name(Run(run), 0)
    (run / f"videos/{name}.mp4").symlink_to(tmp_path / "secret")
    (run / f"videos/{name}.json").write_text('{"steps": 1, "returns": [1, 2]}')
    with pytest.raises(UnsafeFileError, match="is a link"):
        read_video(Run(run), Video(name, 1, (1.0, 2.0)))


def test_a_folder_of_videos_that_is_a_link_is_none(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    name = video_name(Run(run), 0)
    old = outside / "000000000000-0.mp4"
    for path in (outside / f"{name}.mp4", outside / f"{name}.json", old):
        path.write_text('{"steps": 1, "returns": [1, 2]}')
    (run / "videos").symlink_to(outside)
    assert find_video(Run(run), 0) is None
    with pytest.raises(UnsafeFileError, match="videos is a link"):
        remove_outdated(Run(run))
    assert old.exists()


def test_a_pipe_for_a_video_blocks_nobody(run: Path) -> None:
    (run / "videos").mkdir()
    name = video_name(Run(run), 0)
    for suffix in ("mp4", "json"):
        os.mkfifo(run / f"videos/{name}.{suffix}")
    assert find_video(Run(run), 0) is None
