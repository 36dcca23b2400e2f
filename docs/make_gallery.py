"""Make the pictures and clips of docs/gallery.md, from runs that are named and from the results in the repository.

    python docs/make_gallery.py runs/HalfCheetah-v2 runs/Hopper-v2 runs/Walker2d-v2

Each run gives its front and three clips: the two ends of the front and what differs most from both, the first
seconds of the very episodes that were evaluated.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import imageio_ffmpeg
import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ucb_moppo.store.front import front_from_columns, on_front
from ucb_moppo.store.picture import PLAIN_TEXT
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import parse_columns, parse_object
from ucb_moppo.viewer.video import render_row, spread_rows

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "images" / "gallery"
FIRST_RUNS = ROOT / "results" / "first-runs"
SECONDS, WIDTH = 3, 320


def draw_run(run: Run) -> Path:
    """The front of a run, small."""
    path = GALLERY / f"{run.spec.name}-front.png"
    run.plot_front().savefig(path, dpi=90)
    return path


def film_run(run: Run) -> list[Path]:
    """Clips of the two ends of a run's front, and of the point that differs most from both."""
    return [
        film_row(run, row, name) for name, row in zip(("high", "low", "middle"), spread_rows(run, 3), strict=True)
    ]


def film_row(run: Run, row: int, name: str) -> Path:
    """The first seconds of an episode, as WebM."""
    video = render_row(run, row)
    path = GALLERY / f"{run.spec.name}-{name}.webm"
    returns = ", ".join(f"{value:,.0f}" for value in video.returns)
    print(f"{path.name}: weight {run.evaluated().weights[row].round(2)}, returns {returns}", flush=True)
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error"]
    command += ["-i", str(run.path / "videos" / f"{video.name}.mp4"), "-t", str(SECONDS)]
    command += ["-vf", f"scale={WIDTH}:-2", "-c:v", "libvpx-vp9", "-crf", "42", "-b:v", "0", "-an", str(path)]
    subprocess.run(command, check=True)
    return path


def draw_first_runs() -> Path:
    """The fronts of the six problems, out of results/first-runs: a panel each, of the first two objectives."""
    places = sorted(path for path in FIRST_RUNS.iterdir() if path.is_dir())
    with matplotlib.rc_context(PLAIN_TEXT):
        figure = Figure(figsize=(11, 6.6), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, place in zip(figure.subplots(2, 3).flat, places, strict=True):
            table = parse_columns((place / "front.csv").read_bytes(), place / "front.csv")
            summary = parse_object((place / "summary.json").read_bytes(), place / "summary.json")
            front = front_from_columns(table, place)
            kept = on_front(table)
            axes.scatter(*front.returns[~kept, :2].T, s=8, color="0.85")
            axes.scatter(*front.returns[kept, :2].T, s=16, c=front.weights[kept, 0], vmin=0, vmax=1)
            axes.set(xlabel=summary["objectives"][0], ylabel=summary["objectives"][1], title=place.name)
        path = GALLERY / "six-fronts.png"
        figure.savefig(path, dpi=80)
    return path


if __name__ == "__main__":
    GALLERY.mkdir(parents=True, exist_ok=True)
    made = [draw_first_runs()]
    for found in map(Run, sys.argv[1:]):
        made += [draw_run(found), *film_run(found)]
    print(f"{len(made)} files, {sum(path.stat().st_size for path in made) / 1e6:.2f} MB")
