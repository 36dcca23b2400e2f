"""The picture of a front: its legend names what is drawn, and nothing else."""

from pathlib import Path

import numpy as np
import pytest
from sample_runs import SampleRun, rewrite

from ucb_moppo.store.layout import FRONT
from ucb_moppo.store.run import Run


def legend_of(run: Path, num_objectives: int) -> list[str]:
    figure = Run(run).plot_front()
    legend = figure.legends[0] if num_objectives > 3 else figure.axes[0].get_legend()
    return [text.get_text() for text in legend.get_texts()]


def write_run(path: Path, num_objectives: int, worst: float) -> Path:
    """Returns of 9 in one objective and 1 in the others; the last point has ``worst`` in all."""
    returns = np.ones((num_objectives + 1, num_objectives)) + 8 * np.eye(num_objectives + 1, num_objectives)
    returns[-1] = worst
    return SampleRun.showing(returns[None], returns[None]).write(path)


@pytest.mark.parametrize("num_objectives", [2, 3, 5])
def test_the_legend_names_dominated_points_where_there_are_any(tmp_path: Path, num_objectives: int) -> None:
    """With 0.5 in all objectives a point is dominated, with 4 it is on the front, and NaN is drawn nowhere."""
    covered = ["covered"] if num_objectives == 2 else []
    found = {
        worst: sorted(legend_of(write_run(tmp_path / str(worst), num_objectives, worst), num_objectives))
        for worst in (0.5, 4.0, np.nan)
    }
    assert found[0.5] == [*covered, "dominated", "front"]
    assert found[4.0] == sorted([*covered, "front"])
    assert len(Run(tmp_path / "nan").front()) == num_objectives
    assert str(found[np.nan]) == str(found[4.0])


def test_the_legend_of_many_objectives_names_what_was_not_confirmed(tmp_path: Path) -> None:
    """The point of 4 in all objectives was measured to have 0.5."""
    run = write_run(tmp_path / "run", 4, 4.0)
    assert legend_of(run, 4) == ["front"]
    rewrite(run, FRONT, (run / FRONT).read_bytes().replace(b"4.0,4.0,4.0,4.0", b"0.5,0.5,0.5,0.5"))
    assert legend_of(run, 4) == ["not confirmed", "front"]
