"""A video of one evaluated policy: the very episode that was evaluated, drawn offscreen and encoded as H.264.

Run as a program it renders rows of a run and prints how far it is. The viewer starts it that way, because a
graphics driver that fails may take its process with it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec
import numpy as np

from ucb_moppo.errors import ConfigError, RunFormatError, UcbMoppoError, needing
from ucb_moppo.objectives.spread import spread_over
from ucb_moppo.store.front import on_front
from ucb_moppo.store.guarded import file_size, open_folder, read_bytes, replace_file, writing
from ucb_moppo.store.run import Run, load_run
from ucb_moppo.store.storage import Count, Number

DIRECTORY = "videos"
FRAMES_PER_SECOND = 25
MAX_SECONDS = 10
MAX_VIDEO, MAX_BESIDE = 256 << 20, 1 << 16
"""Bytes of a video, and of what lies beside it."""
MAX_MEMORY = 4 << 30
"""Bytes that a renderer may take."""
NAME = re.compile(r"(?P<digest>[0-9a-f]{12})-\d+\.(mp4|json)")
WIDTH, HEIGHT = 480, 360
WIDER = 4
"""Times that a floor is wider in a film."""


class Video(NamedTuple):
    """A rendered episode and what it came to."""

    name: str
    """Of its file, without the suffix: another once the policies have learnt on."""
    steps: int
    returns: tuple[float, ...]


class Told(msgspec.Struct):
    """A line that a renderer tells of one row: how far it is, that it is done, or what went wrong."""

    row: int
    share: float = 0.0
    done: bool = False
    error: str = ""


class Beside(msgspec.Struct):
    """What lies beside a video."""

    steps: Count
    returns: tuple[Number, ...]


def video_name(run: Run, row: int) -> str:
    """The name of a row's video; policies that learn on get a new one."""
    return f"{run.digest()[:12]}-{row}"


def find_video(run: Run, row: int) -> Video | None:
    """The cached video of a row, if there is one."""
    name = video_name(run, row)
    place = f"{DIRECTORY}/{name}"
    try:
        if not file_size(run.place, f"{place}.mp4"):
            return None
        beside = msgspec.json.decode(read_bytes(run.place, f"{place}.json", MAX_BESIDE), type=Beside)
        return Video(name, beside.steps, beside.returns)
    except (RunFormatError, ValueError):  # links, pipes and what is no JSON: as if it were not there
        return None


def video_path(run: Run, video: Video) -> Path:
    """Where the file of a video lies."""
    return run.path / DIRECTORY / f"{video.name}.mp4"


def spread_rows(run: Run, count: int) -> list[int]:
    """Rows of up to ``count`` of the front as measured: the best of each objective, then what differs most."""
    members = np.flatnonzero(on_front(run.table()))[run.confirmed()]
    return [int(members[i]) for i in spread_over(run.evaluated().returns[members], count)]


def read_video(run: Run, video: Video) -> bytes:
    """The file of a video."""
    return read_bytes(run.place, f"{DIRECTORY}/{video.name}.mp4", MAX_VIDEO)


def render_row(run: Run, row: int, on_progress: Callable[[float], None] = lambda share: None) -> Video:
    """Render a row's episode, or take the cached one; videos of policies that are no more go."""
    run.tensors()  # from here on the video is of these policies, whatever becomes of those on disk
    cached = find_video(run, row)
    if cached is not None:
        return cached
    name = video_name(run, row)
    with tempfile.TemporaryDirectory() as elsewhere:  # the encoder opens its file by a path
        film = Path(elsewhere) / "film.mp4"
        steps, returns = write_episode(run, row, film, on_progress)
        data = film.read_bytes()
    with writing(run.place / DIRECTORY), open_folder(run.place) as folder:
        folder.make_folder(DIRECTORY)
    replace_file(run.place, f"{DIRECTORY}/{name}.json", json.dumps({"steps": steps, "returns": returns}).encode())
    replace_file(run.place, f"{DIRECTORY}/{name}.mp4", data)
    if Run(run.place).digest() == run.digest():
        remove_outdated(run)
    return Video(name, steps, tuple(returns))


def remove_outdated(run: Run) -> None:
    """Remove the videos of earlier policies, which nothing on the page can ask for any more."""
    with writing(run.place / DIRECTORY), open_folder(run.place, DIRECTORY) as folder:
        for name in folder.names():
            found = NAME.fullmatch(name)
            if found and found["digest"] != run.digest()[:12]:
                folder.remove(name)


def write_episode(run: Run, row: int, path: Path, on_progress: Callable[[float], None]) -> tuple[int, list[float]]:
    """Run the first of the evaluated episodes to its end and film its beginning: steps taken, returns [m]."""
    from ucb_moppo.engine.evaluation import ActionNoise
    from ucb_moppo.envs.accrued import AccruedBatch
    from ucb_moppo.seeding import EVALUATION, EVALUATION_SEED, episode_seed

    policy = run.evaluated_policy(row)
    batch = make_drawable(run)
    env = AccruedBatch(batch, run.spec.accrued_scales) if run.spec.shows_accrued else batch
    every, rate = frame_rate(batch.environments[0].metadata.get("render_fps"))
    film: Film | None = None
    discount = float(run.config.get("evaluation_discount") or 1.0)
    returns, steps, done = np.zeros(len(policy.weight)), 0, False
    try:
        start = (EVALUATION, 0)
        noise = ActionNoise([start], batch.spec.action, batch.spec.horizon) if samples_actions(run) else None
        observation = env.reset(np.array([0]), [episode_seed(EVALUATION_SEED, *start)])
        while not done:
            if steps % every == 0 and steps // every < MAX_SECONDS * rate:
                film = film or Film(path, rate)
                film.add(batch.render())
                on_progress(steps / min(batch.spec.horizon, every * MAX_SECONDS * rate))
            step = env.step(policy.act(observation, None if noise is None else noise.at(steps)))
            observation, returns = step.observation, returns + discount**steps * step.reward[0]
            steps += 1
            done = bool(step.terminated[0] or step.truncated[0])
        assert film is not None
        film.add(batch.render())
    finally:
        if film is not None:
            film.close()
        batch.close()
    return steps, returns.tolist()


def samples_actions(run: Run) -> bool:
    """Whether the episodes of a run's evaluations sampled actions."""
    goal = run.config.get("goal")
    return isinstance(goal, dict) and goal.get("actions") == "sampled"


def frame_rate(own: Any) -> tuple[int, float]:
    """(film every so many steps, frames per second) that play an environment at its own speed."""
    rate = float(own) if own else float(FRAMES_PER_SECOND)
    every = max(1, round(rate / FRAMES_PER_SECOND))
    return every, rate / every


def make_drawable(run: Run) -> Any:
    """One environment of the run's problem that draws itself."""
    from ucb_moppo.envs import PROBLEMS
    from ucb_moppo.envs.adapter import GymBatch
    from ucb_moppo.envs.registration import gymnasium_id

    problem, config = run.config["problem"], run.config
    options: dict[str, Any] = {"render_mode": "rgb_array"}
    if problem in PROBLEMS:
        problem = gymnasium_id(problem, config.get("protocol", "gymnasium"))
        options |= {"width": WIDTH, "height": HEIGHT}
    try:
        batch = GymBatch(problem, 1, config["horizon"], config["reference_point"], **options)
    except ConfigError as fault:
        raise ConfigError(f"{problem} cannot be drawn: {fault}") from fault
    model: Any = getattr(batch.environments[0].unwrapped, "model", None)
    if hasattr(model, "vis"):
        # Without a graphics card, shadows and smooth edges take nine tenths of the time.
        model.vis.quality.shadowsize = model.vis.quality.offsamples = 0
        follow_body(batch.environments[0].unwrapped)
        widen_floor(model)
    return batch


def follow_body(env: Any) -> None:
    """Look through the model's own camera that moves along; Gymnasium 1.4 would take one that stands still."""
    import mujoco

    camera = mujoco.mj_name2id(env.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
    if camera >= 0:
        env.mujoco_renderer.camera_id = camera


def widen_floor(model: Any) -> None:
    """Draw the floor beyond where a film can end; a cheetah leaves the model's own, of 40 metres, in ten seconds.

    Collisions know no end of a plane. The tiles stay as large as they are.
    """
    import mujoco

    floors = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    model.geom_size[floors, :2] *= WIDER
    for material in set(model.geom_matid[floors].tolist()) - {-1}:
        if not model.mat_texuniform[material]:  # a uniform texture is repeated by the metre
            model.mat_texrepeat[material] *= WIDER


class Film:
    """Frames [height, width, 3] on their way into a file."""

    def __init__(self, path: Path, rate: float) -> None:
        self._path, self._rate = path, rate
        self._writer: Any = None

    def add(self, frame: np.ndarray) -> None:
        even = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]  # H.264 takes colours of 2 × 2 pixels
        if self._writer is None:
            self._writer = self._open(even.shape[1], even.shape[0])
            self._writer.send(None)
        self._writer.send(np.ascontiguousarray(even))

    def _open(self, width: int, height: int) -> Iterator:
        with needing("a video", "viewer"):
            import imageio_ffmpeg
        return imageio_ffmpeg.write_frames(
            str(self._path),
            (width, height),
            fps=self._rate,
            codec="libx264",
            pix_fmt_out="yuv420p",
            macro_block_size=2,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart", "-preset", "veryfast"],
        )

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m ucb_moppo.viewer.video RUN ROW...``: a JSON line for every bit of progress."""
    path, *rows = list(sys.argv[1:] if argv is None else argv)

    def tell(told: Told) -> None:
        print(msgspec.json.encode(told).decode(), flush=True)

    for row in map(int, rows):
        try:
            render_row(load_run(path), row, lambda share, row=row: tell(Told(row, round(share, 3))))  # type: ignore[misc]
            tell(Told(row, 1.0, done=True))
        except UcbMoppoError as fault:
            tell(Told(row, error=str(fault)))
        except Exception as fault:
            tell(Told(row, error=f"{type(fault).__name__}: {fault}"))
    return 0


def limit_memory(size: int) -> None:
    """Let this process have no more memory than so many bytes, where the system can see to it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def end_with_parent() -> None:
    """End this process when its standard input ends, which whoever has started it holds open."""

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def be_child(main: Callable[[], int]) -> NoReturn:
    """Run a program that ends with whoever has started it, and takes no more memory than it may."""
    end_with_parent()
    limit_memory(MAX_MEMORY)
    sys.exit(main())


if __name__ == "__main__":
    be_child(main)
