"""What the plots of the page show, where a person would be misled otherwise."""

from dataclasses import replace

import numpy as np
import pytest
from sample_runs import SampleRun

pytest.importorskip("plotly", reason="the viewer is not installed: pip install 'ucb-moppo[viewer]'")

from matplotlib.colors import to_rgb

from ucb_moppo.objectives.weights import simplex_lattice
from ucb_moppo.report.load import load_data
from ucb_moppo.report.style import weight_colours
from ucb_moppo.viewer import figures
from ucb_moppo.viewer.choice import choose
from ucb_moppo.viewer.page_layout import history_card


@pytest.mark.parametrize("num_objectives", [2, 3])
def test_the_other_run_has_a_colour_that_no_weight_has(num_objectives):
    own = weight_colours(simplex_lattice(num_objectives, 40))
    for colour in (figures.OTHER_COLOUR, figures.CHOSEN_COLOUR):
        assert np.linalg.norm(own - to_rgb(colour), axis=1).min() > 0.35  # of √3 from black to white


def test_every_pair_of_many_objectives_has_a_panel(tmp_path):
    """A matrix has a dimension per objective; its traces are the layers, with all of their points."""
    data = load_data(SampleRun(num_objectives=9, num_policies=9).write(tmp_path / "nine"))
    chosen = choose(data, np.full(9, 1 / 9))
    figure = figures.front_figure(data, chosen, [], view="pairs")
    assert [trace.name for trace in figure.data] == ["front", "chosen"]
    front, star = figure.data
    assert [one.label for one in front.dimensions] == data.objectives
    for j in range(9):
        np.testing.assert_array_equal(front.dimensions[j].values, data.front[:, j])
        assert star.dimensions[j].values == [chosen.returns[j]]
    assert not front.showupperhalf
    assert figure.layout.xaxis9.nticks == figure.layout.yaxis.nticks == 3
    lines = figures.front_figure(data, chosen, [])
    assert lines.layout.xaxis.ticktext[8].startswith("beauty")


def test_the_words_of_the_outer_axes_have_room(tmp_path):
    data = load_data(SampleRun(num_objectives=5).write(tmp_path / "five"))
    chosen = choose(data, np.full(5, 0.2))
    for figure in (figures.front_figure(data, chosen, []), figures.history_figure(data, 1)):
        low, high = figure.layout.xaxis.range
        assert low <= -0.3
        assert high >= 4.3


def test_no_name_of_many_axes_is_left_out_or_broken(tmp_path):
    """Plotly leaves out a turned name that would not fit: here none is, and lines are short enough to stand."""
    assert figures.name_axes(["carbohydrates", "jump height of it"], np.array([[0.0, -1.5], [2e4, 3.25]])) == [
        "carbohydrates<br>0 … 2e+04",
        "jump height<br>of it<br>-1.5 … 3.25",
    ]
    data = load_data(SampleRun(num_objectives=9, num_policies=9).write(tmp_path / "nine"))
    for figure in (
        figures.front_figure(data, choose(data, np.full(9, 1 / 9)), []),
        figures.history_figure(data, 1),
    ):
        axis = figure.layout.xaxis
        assert (axis.ticklabeloverflow, axis.tickfont.size) == ("allow", 10)
        assert axis.ticktext == tuple(f"{name}<br>0 …<br>100" for name in data.objectives)


@pytest.mark.parametrize("num_objectives", [3, 5])
def test_the_front_never_leaves_its_axes_while_it_grows(tmp_path, num_objectives):
    """A point of the first evaluation lies at −50, one of the newest front, measured anew, at 300."""
    weights = simplex_lattice(num_objectives, 1)
    first, last = 10 * weights, 100 * weights
    first[0, 1] = -50
    run = SampleRun.showing(first[None], last[None])
    data = load_data(run.write(tmp_path / "run"))
    data = replace(data, points=replace(data.points, returns=3 * data.front))
    low, high = figures.history_extent(data)
    assert low.tolist() == [0, -50, *[0] * (num_objectives - 2)]
    assert high.tolist() == [300] * num_objectives
    for index in (0, 1):
        figure = figures.history_figure(data, index)
        for trace in figure.data:
            for values, axis in ((trace.x, "xaxis"), (trace.y, "yaxis")):
                name = axis + (trace[axis[0] + "axis"] or axis[0])[1:]
                below, above = figure.layout[name].range
                assert np.nanmin(values) >= below
                assert np.nanmax(values) <= above


def test_the_page_says_what_its_curve_is_measured_by(tmp_path):
    measured, chosen = (
        str(history_card(load_data(SampleRun(settings={"held_out": number}).write(tmp_path / str(number)))))
        for number in (10, 0)
    )
    assert "Curves are measured by the episodes that stages choose by" in measured
    assert "Curves are" not in chosen
