"""Figures of fronts: what they show of a run, and that they cut off nothing."""

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from sample_runs import SampleRun

from ucb_moppo.report.fronts import (
    front_picture,
    growth_limits,
    growth_picture,
    overlay_pairs_picture,
    pairs_picture,
    parallel_coordinates,
    spread,
)
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.sections import make_sections
from ucb_moppo.report.style import objective_colour
from ucb_moppo.store.pairs import PointLayer
from ucb_moppo.store.picture import draw_front, draw_panels
from ucb_moppo.store.run import load_run


def test_growth_has_eight_panels_with_the_hypervolume_last(tmp_path):
    data = load_data(SampleRun(num_stages=20).write(tmp_path / "one"))
    *panels, colours = growth_picture(data).figure.axes
    assert colours.get_ylabel() == "weight of speed"
    assert len(panels) == 8
    assert panels[-1].get_title() == "hypervolume"
    assert [panel.get_title().split(",")[0] for panel in panels[:7]] == [
        f"stage {i}" for i in (0, 3, 6, 10, 13, 16, 19)
    ]


def test_growth_of_a_young_run_has_a_panel_per_evaluation_and_no_gaps(tmp_path):
    data = load_data(SampleRun(num_objectives=3, num_stages=3).write(tmp_path / "one"))
    *panels, colours = growth_picture(data).figure.axes
    assert [panel.get_title().split(",")[0] for panel in panels] == ["stage 0", "stage 1", "stage 2", "hypervolume"]
    assert colours.get_ylabel() == "height"


def test_growth_cuts_off_no_point_of_a_front(tmp_path):
    # 399 points around (10, 10) and one at (20, −500): less than a hundredth, but on the front.
    values = 10 + np.random.default_rng(0).random((2, 200, 2))
    values[0, 0] = 20, -500
    data = load_data(SampleRun.showing(values, values).write(tmp_path / "one"))
    low, high = growth_limits(data)
    assert low[1] < -500
    assert high[0] > 20


def panels_of(picture, num_objectives):
    """The panels of a matrix as (objective beside, objective below): [what it shows]."""
    size = num_objectives - 1
    panels = iter(picture.figure.axes)
    return {(row + 1, column): next(panels) for row in range(size) for column in range(row + 1)}


def shown(axes):
    return np.concatenate([np.asarray(marks.get_offsets()) for marks in axes.collections])


def test_every_pair_of_objectives_is_shown_once(tmp_path):
    data = load_data(SampleRun(num_objectives=9, num_policies=9).write(tmp_path / "one"))
    panels = panels_of(pairs_picture(data), 9)
    assert len(panels) == 36
    for (j, i), axes in panels.items():
        points = data.evaluated.returns[:, [i, j]]
        np.testing.assert_allclose(np.sort(shown(axes), axis=0), np.sort(points, axis=0))
    assert panels[8, 0].get_ylabel() == "beauty"
    assert panels[8, 7].get_xlabel() == "safety"
    assert (panels[3, 0].get_xlabel(), panels[3, 2].get_ylabel()) == ("", "")


def test_pairs_of_several_runs_hold_the_fronts_of_all(tmp_path):
    runs = [
        SampleRun(num_objectives=4, radius=r, method=n).write(tmp_path / n) for n, r in (("ucb", 9), ("mean", 5))
    ]
    section = make_sections(load_all(runs))[0]
    panels = panels_of(overlay_pairs_picture(section), 4)
    expected = np.concatenate([run.front[:, [1, 3]] for run in section.runs])
    np.testing.assert_allclose(shown(panels[3, 1]), expected)


# --- parallel coordinates ----------------------------------------------------------------------------------

POINTS = np.array([[0.0, 10.0, 5.0, -4.0], [2.0, 30.0, 5.0, -1.0], [4.0, 20.0, 5.0, -2.5]])
NAMES = ("speed", "height", "comfort", "forward speed of the body")


def drawn_lines(axes):
    """The lines [n, m, 2] of points over numbered axes."""
    (lines,) = (marks for marks in axes.collections if len(marks.get_segments()[0]) == len(NAMES))
    return lines, np.array(lines.get_segments())


def draw_parallel(**options):
    axes = Figure().subplots()
    parallel_coordinates(axes, POINTS, NAMES, ["red", "blue", "lime"], **options)
    return axes


def test_parallel_coordinates_draw_a_line_per_point_scaled_on_every_axis():
    """From the worst, 0, to the best, 1, of each objective; where all are alike (the third) at 0."""
    lines, segments = drawn_lines(draw_parallel())
    np.testing.assert_array_equal(segments[..., 0], [[0, 1, 2, 3]] * 3)
    np.testing.assert_allclose(segments[..., 1], [[0, 0, 0, 0], [0.5, 1, 0, 1], [1, 0.5, 0, 0.5]])
    np.testing.assert_array_equal(lines.get_colors()[:, :3], [[1, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_parallel_axes_stand_in_the_order_of_the_objectives_with_their_limits():
    axes = draw_parallel()
    assert axes.get_xticks().tolist() == [0, 1, 2, 3]
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == ["speed", "height", "comfort", "forward\nspeed of the\nbody"]
    said = {(text.get_position()[0], text.get_va()): text.get_text() for text in axes.texts}
    worst, best = ["0", "10", "5", "-4"], ["4", "30", "5", "-1"]
    assert [said[j, "top"] for j in range(4)] == worst  # below the axis
    assert [said[j, "bottom"] for j in range(4)] == best


def test_no_word_under_a_parallel_axis_is_broken():
    axes = Figure().subplots()
    names = ["protein", "carbohydrates", "fats", "vitamins and minerals"]
    parallel_coordinates(axes, POINTS, names, ["red", "blue", "lime"])
    shown_names = [label.get_text() for label in axes.get_xticklabels()]
    assert shown_names == ["protein", "carbohydrates", "fats", "vitamins and\nminerals"]


def test_parallel_coordinates_of_several_fronts_have_one_scale():
    limits = np.array([[0.0, 0.0, 0.0, -5.0], [8.0, 40.0, 10.0, 0.0]])
    _, segments = drawn_lines(draw_parallel(limits=limits))
    np.testing.assert_allclose(
        segments[..., 1], [[0, 0.25, 0.5, 0.2], [0.25, 0.75, 0.5, 0.8], [0.5, 0.5, 0.5, 0.5]]
    )


def test_a_front_of_four_objectives_is_drawn_as_lines_in_the_colour_of_the_largest_weight(tmp_path):
    """Three policies of two probes; what is dominated is on no line."""
    returns = np.concatenate([POINTS, [[1, 40, 6, -3.0], [0, 0, 7, -9.0], [-1, -1, -1, -9.0]]]).reshape(1, 3, 2, 4)
    data = load_data(SampleRun.showing(*np.repeat(returns, 2, axis=0)).write(tmp_path / "one"))
    assert data.on_front.tolist() == [False, True, True, True, True, False]
    lines, segments = drawn_lines(front_picture(data).figure.axes[0])
    low, high = data.front.min(axis=0), data.front.max(axis=0)
    np.testing.assert_allclose(segments[..., 1], (data.front - low) / (high - low))
    largest = data.evaluated.weights[data.on_front].argmax(axis=1)
    expected = [to_rgb(objective_colour(j)) for j in largest]
    np.testing.assert_allclose(lines.get_colors()[:, :3], expected)


def test_nine_objectives_have_nine_colours():
    assert len({objective_colour(j) for j in range(9)}) == 9


def test_the_picture_of_a_run_shows_every_pair(tmp_path):
    run = load_run(SampleRun(num_objectives=5, num_policies=5).write(tmp_path / "run"))
    figure, panels = draw_panels(run.summary["objectives"], [PointLayer(run.front().returns, {"s": 9})])
    assert len(panels) == len(figure.axes) == 10
    assert draw_front(run, tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")


def test_spread_keeps_both_ends():
    assert spread(100, 3).tolist() == [0, 50, 99]
    assert spread(2, 7).tolist() == [0, 1]
