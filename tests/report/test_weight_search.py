"""Figures of the search for weights, against counts and errors that are known."""

from dataclasses import replace

import numpy as np
from sample_runs import SampleRun

from ucb_moppo.report.load import load_data
from ucb_moppo.report.weight_search import selection_counts, surrogate_picture


def test_selection_counts_environments_near_each_weight(tmp_path):
    # Two policies with probes at w_1 = 0, ¼, … of their halves; all train on their first two candidates,
    # which are the nearest to the first probe of each.
    data = load_data(SampleRun(num_policies=2, probes=3).write(tmp_path / "one"))
    counts = selection_counts(data)
    assert counts.shape == (3, 6)
    np.testing.assert_array_equal(counts, [[2, 0, 0, 2, 0, 0]] * 3)


def test_weights_chosen_together_count_where_they_lie(tmp_path):
    """While a policy is shared, a row of the weights is no sub-space: each counts for the nearest of all."""
    data = load_data(SampleRun(num_policies=2, probes=3).write(tmp_path / "one"))
    near_both_ends = [[[0.01, 0.99], [0.99, 0.01]], [[0.02, 0.98], [0.01, 0.99]]]
    lines = [line | {"selected_weights": near_both_ends, "iteration": 7} for line in data.metrics[1:2]]
    search = data.config["search"] | {"layout": "parting", "together": 7}
    shared = replace(data, metrics=lines, config=data.config | {"search": search})
    np.testing.assert_array_equal(selection_counts(shared), [[3, 0, 0, 0, 0, 1]])
    parted = replace(shared, config=data.config | {"search": search | {"together": 6}})
    np.testing.assert_array_equal(selection_counts(parted), [[1, 0, 1, 2, 0, 0]])


def test_surrogate_figure_shows_error_and_bonus(tmp_path):
    figure = surrogate_picture(load_data(SampleRun().write(tmp_path / "one"))).figure
    error, no_change = figure.axes[1].get_lines()
    assert set(error.get_ydata()) == {1.0}
    assert set(no_change.get_ydata()) == {3.0}
    assert set(figure.axes[2].get_lines()[0].get_ydata()) == {0.25}


def test_metrics_that_name_no_surrogate_have_no_such_figure(tmp_path):
    data = load_data(SampleRun().write(tmp_path / "one"))
    lines = [line | {"surrogate": None} for line in data.metrics]
    assert surrogate_picture(replace(data, metrics=lines)) is None
