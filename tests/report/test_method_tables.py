"""Methods side by side, against numbers worked out by hand."""

import csv
import io

import numpy as np
import pytest
from sample_runs import SampleRun, add_indicator

from ucb_moppo.report.cells import NONE
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.method_tables import aggregate_table, comparison_table, kept_table
from ucb_moppo.report.run_tables import summary_table
from ucb_moppo.report.sections import make_sections
from ucb_moppo.report.table import to_csv


def plain_row(table, label):
    columns, rows = table.plain
    return dict(zip(columns, next(row for row in rows if row[0] == label), strict=True))


def test_comparison_has_mean_spread_and_iqm(swimmer):
    table = comparison_table(swimmer)
    ucb, mean = plain_row(table, "ucb"), plain_row(table, "mean")
    # (10 + 20 + 60) / 3 = 30; deviations −20, −10, 30: (400 + 100 + 900) / 2 = 700.
    assert ucb["HV mean"] == 30.0
    assert ucb["HV std"] == pytest.approx(np.sqrt(700))
    assert ucb["EU mean"] == 3.0
    assert ucb["HV IQM"] == 30.0
    assert 10.0 <= ucb["HV low"] < 30.0 < ucb["HV high"] <= 60.0
    assert mean["HV mean"] == 30.0
    assert np.isnan(mean["HV std"])
    assert table.rows[0][:3] == ("ucb", "0, 1, 2", "30.00 ± 26.46")
    assert table.rows[1][:3] == ("mean", "0", "30.00")


def test_extra_indicators_have_a_row_and_a_column_where_a_run_has_them(tmp_path):
    paths = [SampleRun(seed=seed).write(tmp_path / f"r{seed}") for seed in (0, 1)]
    paths.append(SampleRun(method="mean").write(tmp_path / "mean"))
    before = comparison_table(make_sections(load_all(paths))[0])
    for path, last in zip(paths, (0.25, 0.75), strict=False):
        add_indicator(path, "my_lab:spread", [0.0, 0.0, 0.0, last])
    table = comparison_table(make_sections(load_all(paths))[0])
    assert table.columns == (*before.columns, "my_lab:spread: mean ± std")
    # The mean of 0.25 and 0.75 is ½; deviations ∓¼ over n − 1 = 1 give √⅛ = 0.35355.
    assert [row[-1] for row in table.rows] == ["0.500 ± 0.354", NONE]
    assert [row[:-1] for row in table.rows] == list(before.rows)
    assert plain_row(table, "ucb")["my_lab:spread mean"] == 0.5
    assert table.bold == before.bold
    with_it, without = (dict(summary_table(load_data(path)).rows) for path in (paths[0], paths[2]))
    assert with_it["my_lab:spread"] == "0.250"
    assert list(without) == [name for name in with_it if name != "my_lab:spread"]


def test_aggregate_scores_are_shares_of_the_best_run(swimmer, tmp_path):
    other = SampleRun(problem="Hopper-v2", seed=0).write(tmp_path / "d")
    table = aggregate_table([swimmer, *make_sections(load_all([other]))])
    # ucb: 10/60, 20/60, 60/60 on Swimmer and 1 on Hopper; mean: 30/60.
    assert plain_row(table, "ucb")["mean"] == pytest.approx((1 / 6 + 1 / 3 + 1 + 1) / 4)
    assert plain_row(table, "mean")["mean"] == 0.5


def test_kept_counts_policies_and_parameters(swimmer):
    rows = kept_table(swimmer).rows
    assert rows[0] == ("ucb", "this report", "3", "1,234")
    assert ("PGMORL", "paper", "168", NONE) in rows


def test_kept_csv_has_a_row_per_seed(swimmer):
    rows = list(csv.reader(io.StringIO(to_csv(kept_table(swimmer)))))
    assert rows[0] == ["method", "source", "seed", "policies", "parameters"]
    assert rows[1:4] == [["ucb", "this report", str(seed), "3", "1234"] for seed in (0, 1, 2)]
    assert ["PGMORL", "paper", "", "168", ""] in rows
