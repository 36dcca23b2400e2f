"""Videos on demand: one at a time, in a process of their own, with a progress that can be asked for."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucb_moppo.errors import RunFormatError
from ucb_moppo.store.run import Run
from ucb_moppo.viewer.video import Video, find_video

# MuJoCo draws through EGL and pygame into memory: no screen is needed, nor a sound card.
OFFSCREEN = {
    "MUJOCO_GL": "egl",
    "PYOPENGL_PLATFORM": "egl",
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}


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
            for told in render_rows(Path(key[0]), [key[2]]):
                if "error" in told:
                    self._set(key, VideoProgress("failed", error=str(told["error"])))
                elif not told.get("done"):
                    self._set(key, VideoProgress("rendering", float(told["share"])))
                else:
                    self._forget(key)

    def _set(self, key: Key, progress: VideoProgress) -> None:
        with self._lock:
            self._progress[key] = progress

    def _forget(self, key: Key) -> None:
        with self._lock:
            self._progress.pop(key, None)


def render_rows(path: Path, rows: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Render rows in another process; what it tells, and an error for every row it did not get to."""
    command = [sys.executable, "-P", "-m", "ucb_moppo.viewer.video", str(path), *map(str, rows)]
    settled: set[int] = set()
    with subprocess.Popen(
        command,
        env={**OFFSCREEN, **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)  # type: ignore[arg-type]
        reader.start()
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            if told.get("done") or "error" in told:
                settled.add(told["row"])
            yield told
        reader.join(timeout=5)
    last = next((line.strip() for line in reversed(errors) if line.strip()), f"exit code {process.returncode}")
    for row in rows:
        if row not in settled:
            yield {"row": row, "error": f"rendering stopped: {last}"}


def render_ahead(path: Path, rows: Sequence[int], say: Callable[[str], None]) -> None:
    """Render many videos before the page opens, telling how far it is."""
    finished = 0
    for told in render_rows(path, rows):
        if told.get("done") or "error" in told:
            finished += 1
            outcome = told.get("error") or "rendered"
            say(f"video {finished} of {len(rows)}: {outcome}")
