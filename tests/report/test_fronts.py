"""Figures of fronts: what they show of a run, and that they cut off nothing."""

import numpy as np
from sample_runs import SampleRun

from ucb_moppo.report.data import load_data
from ucb_moppo.report.fronts import growth_limits, growth_picture, spread


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


def test_spread_keeps_both_ends():
    assert spread(100, 3).tolist() == [0, 50, 99]
    assert spread(2, 7).tolist() == [0, 1]
