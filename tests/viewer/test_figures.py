"""What the plots of the page show, where a person would be misled otherwise."""

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
