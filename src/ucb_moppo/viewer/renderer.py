"""Videos on demand: one at a time, in a process of their own, with a progress that can be asked for."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ucb_moppo.errors import RunFormatError
from ucb_moppo.runtime.place import SAFE_PATH
from ucb_moppo.store.layout import CONFIG
from ucb_moppo.store.run import Run
from ucb_moppo.training.imports import announce_imports
from ucb_moppo.viewer.video import Told, Video, find_video

# MuJoCo draws through EGL and pygame into memory: no screen is needed, nor a sound card.
OFFSCREEN = {
    "MUJOCO_GL": "egl",
    "PYOPENGL_PLATFORM": "egl",
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}


SECONDS_PER_VIDEO = 600.0
"""That a renderer may say nothing for; a frame takes a fraction of a second."""


@dataclass(frozen=True)
class VideoProgress:
    """Where a video stands."""

    state: str
    """missing, waiting, rendering, done or failed."""
    share: float = 0.0
    video: Video | None = None
    error: str = ""


Key = tuple[str, str, int]
"""Directory of the run, digest of its policies, row."""


class Renderer:
    """Renders one video after the other in the background."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: dict[Key, VideoProgress] = {}
        self._queue: queue.Queue[Key] = queue.Queue()
        self._worker: threading.Thread | None = None

    def progress(self, path: Path, row: int) -> VideoProgress:
        """Where the video of a row stands."""
        run = Run(path)
        try:
            video = find_video(run, row)
        except RunFormatError as fault:
            return VideoProgress("failed", error=str(fault))
        if video is not None:
            return VideoProgress("done", 1.0, video)
        with self._lock:
            return self._progress.get((str(path), run.digest(), row), VideoProgress("missing"))

    def request(self, path: Path, row: int) -> None:
        """Ask for a video, unless it is there or on its way."""
        if self.progress(path, row).state in ("done", "waiting", "rendering"):
            return
        try:
            key = (str(path), Run(path).digest(), row)
        except RunFormatError:  # which ``progress`` tells
            return
        with self._lock:
            self._progress[key] = VideoProgress("waiting")
            self._queue.put(key)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, daemon=True)
                self._worker.start()

    def _work(self) -> None:
        while True:
            key = self._queue.get()
            self._set(key, VideoProgress("rendering"))
            try:
                for told in render_rows(Path(key[0]), [key[2]]):
                    self._note(key, told)
            except Exception as fault:  # of one video: the next may be rendered all the same
                self._set(key, VideoProgress("failed", error=f"{type(fault).__name__}: {fault}"))

    def _note(self, key: Key, told: Told) -> None:
        if told.error:
            self._set(key, VideoProgress("failed", error=told.error))
        elif not told.done:
            self._set(key, VideoProgress("rendering", told.share))
        else:
            self._forget(key)

    def _set(self, key: Key, progress: VideoProgress) -> None:
        with self._lock:
            self._progress[key] = progress

    def _forget(self, key: Key) -> None:
        with self._lock:
            self._progress.pop(key, None)


def render_rows(path: Path, rows: Sequence[int], seconds: float = SECONDS_PER_VIDEO) -> Iterator[Told]:
    """Render rows in another process; what it tells, and an error for every row it did not get to.

    The process ends with this one, or when it takes more than ``seconds`` for a video: then, too, the others fail.
    """
    with suppress(RunFormatError):  # which the process tells
        announce_imports(path / CONFIG, Run(path).config)
    command = [sys.executable, "-P", "-m", "ucb_moppo.viewer.video", str(path), *map(str, rows)]
    settled: set[int] = set()
    errors: deque[str] = deque(maxlen=100)
    late = threading.Event()
    with start(command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        reader = threading.Thread(target=errors.extend, args=[process.stderr], daemon=True)
        reader.start()
        watch = Watch(process, seconds, late)
        try:
            for line in process.stdout:
                told = parse_told(line, rows)
                if told is not None:
                    watch.restart()
                    settled |= {told.row} if told.done or told.error else set()
                    yield told
            reader.join(timeout=5)
        finally:
            watch.stop()
            process.kill()
    last = next((line.strip() for line in reversed(errors) if line.strip()), f"exit code {process.returncode}")
    reason = f"nothing came of it for {seconds:g} seconds" if late.is_set() else last
    yield from (Told(row, error=f"rendering stopped: {reason}") for row in rows if row not in settled)


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """A process that draws offscreen. It ends when its standard input does, and so when this process does."""
    environment, pipe = {**OFFSCREEN, **os.environ, **SAFE_PATH}, subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


class Watch:
    """Ends a process that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[str], seconds: float, late: threading.Event) -> None:
        self._process, self._seconds, self._late = process, seconds, late
        self.restart()

    def restart(self) -> None:
        if hasattr(self, "_timer"):
            self.stop()
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self._late.set()
        self._process.kill()


def parse_told(line: str, rows: Sequence[int]) -> Told | None:
    """What a line of the renderer tells of one of the rows; None for what an environment prints beside it."""
    try:
        told = msgspec.json.decode(line, type=Told)
    except (ValueError, RecursionError):
        return None
    return told if told.row in rows else None


def render_ahead(path: Path, rows: Sequence[int], say: Callable[[str], None]) -> None:
    """Render many videos before the page opens, telling how far it is."""
    finished = 0
    for told in render_rows(path, rows):
        if told.done or told.error:
            finished += 1
            outcome = told.error or "rendered"
            say(f"video {finished} of {len(rows)}: {outcome}")
