"""Figures over training: the curves of every indicator, and what a run cost."""

import json
from dataclasses import replace

import numpy as np
from sample_runs import SampleRun, add_indicator, rewrite

from ucb_moppo.report.curves import (
    bands_picture,
    costs_picture,
    indicators_picture,
    kept_picture,
    label_that_fits,
    short_count,
    spent_seconds,
)
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.sections import make_sections


def curves_of(picture):
    """The values of every line of a figure, by the title of its panel."""
    return {
        axes.get_title(): [line.get_ydata().tolist() for line in axes.get_lines()] for axes in picture.figure.axes
    }


def test_a_run_has_a_curve_of_each_indicator(tmp_path):
    run = SampleRun(num_stages=3).write(tmp_path / "one")
    data = load_data(run)
    assert list(curves_of(indicators_picture(data))) == ["hypervolume", "expected utility", "sparsity"]
    add_indicator(run, "my_lab:spread", [1.0, 4.0, 9.0])
    curves = curves_of(indicators_picture(load_data(run)))
    assert list(curves) == ["hypervolume", "expected utility", "sparsity", "my_lab:spread"]
    assert curves["hypervolume"] == [data.series("hypervolume").tolist()]
    assert curves["my_lab:spread"] == [[1.0, 4.0, 9.0]]


def test_bands_of_an_extra_indicator_are_of_the_runs_that_have_it(tmp_path):
    """ucb: the mean of (1, 4, 9) and (3, 6, 7) is (2, 5, 8), its third seed has none; nor has any of mean."""
    paths = [SampleRun(seed=seed, num_stages=3).write(tmp_path / f"ucb{seed}") for seed in range(3)]
    paths.append(SampleRun(method="mean", num_stages=3).write(tmp_path / "mean0"))
    add_indicator(paths[0], "spread", [1.0, 4.0, 9.0])
    add_indicator(paths[1], "spread", [3.0, 6.0, 7.0])
    (section,) = make_sections(load_all(paths))
    curves = curves_of(bands_picture(section))
    assert list(curves) == ["hypervolume", "expected utility", "spread"]
    ucb, mean = curves["spread"]
    assert ucb == [2.0, 5.0, 8.0]
    assert np.isnan(mean).all()


def test_bars_say_what_fits():
    assert label_that_fits(0.87, "5M steps") == "87%\n5M steps"
    assert label_that_fits(0.10, "727k steps") == "10%"
    assert label_that_fits(0.03, "1 s") == ""
    assert [short_count(x) for x in (727_223, 1_351_660, 5_000_000, 999)] == ["727k", "1.35M", "5M", "999"]


def test_time_is_shared_out(tmp_path):
    data = load_data(SampleRun().write(tmp_path / "one"))
    assert spent_seconds(data) == {"training": 24.0, "evaluating": 12.0, "selecting": 4.0}


def count_policies(path, counts):
    """Let the metrics of a run say how many policies there were."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    rows = [line | {"policies": count} for line, count in zip(lines, counts, strict=True)]
    rewrite(path, "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


def test_policies_kept_are_drawn_where_they_were_counted(tmp_path):
    paths = [SampleRun(seed=seed, num_stages=3).write(tmp_path / f"ucb{seed}") for seed in range(2)]
    (section,) = make_sections(load_all(paths))
    assert kept_picture(section) is None
    count_policies(paths[0], [1, 4, 9])
    count_policies(paths[1], [3, 6, 7])
    (section,) = make_sections(load_all(paths))
    (axes,) = kept_picture(section).figure.axes
    assert axes.get_lines()[0].get_ydata().tolist() == [2.0, 5.0, 8.0]


def test_time_that_was_not_recorded_is_not_shared_out(tmp_path):
    run = SampleRun().write(tmp_path / "one")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    del lines[-1]["seconds"]
    data = replace(load_data(run), metrics=lines)
    assert spent_seconds(data) == {}
    assert "did not record" in costs_picture(data).caption
