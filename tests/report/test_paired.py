"""Ratios seed by seed, against numbers worked out by hand and scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sample_results import write_results
from scipy import stats

from ucb_moppo.report.load import load_all
from ucb_moppo.report.paired import mean_change, paired_table
from ucb_moppo.report.sections import make_sections


def test_one_problem_has_the_interval_of_a_paired_t_test() -> None:
    logs = np.log([1.1, 1.2, 0.9, 1.3])
    found = mean_change([logs])
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    np.testing.assert_allclose(found[:3], np.expm1([logs.mean(), interval.low, interval.high]))
    assert found.num_pairs == 4


def test_problems_count_alike_however_many_seeds_they_have() -> None:
    """Logs 0.1 thrice and 0.3, 0.5: the mean of 0.1 and 0.4 is 0.25; variance (0 + 0.02/2)/4, one degree."""
    found = mean_change([np.full(3, 0.1), np.array([0.3, 0.5])])
    margin = stats.t.ppf(0.975, 1) * np.sqrt(0.01) / 2
    np.testing.assert_allclose(found[:3], np.expm1([0.25, 0.25 - margin, 0.25 + margin]))


def test_a_single_pair_has_no_interval() -> None:
    found = mean_change([np.array([np.log(1.5)])])
    assert found.value == pytest.approx(0.5)
    assert np.isnan(found.low)


def test_seeds_are_paired_and_those_that_one_method_lacks_are_left_out(tmp_path: Path) -> None:
    """ucb 110, 220, 330 against random 100, 200: +10% of two pairs, with no spread at all."""
    write_results(tmp_path, "Swimmer-v2", "ucb", [110, 220, 330])
    write_results(tmp_path, "Swimmer-v2", "random", [100, 200])
    table = paired_table(make_sections(load_all([tmp_path])))
    assert table is not None
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["HV", "ucb"] == ("–", "+10.0% [+10.0, +10.0]")
    assert rows["HV", "random"] == ("-9.1% [-9.1, -9.1]", "–")
    assert table.plain is not None
    assert table.plain[1][0][:4] == ("HV", "ucb", "random", 2)


def test_a_run_that_failed_is_not_left_out_of_a_ratio(tmp_path: Path) -> None:
    """110 and 112 against 100 are +11%, but a third seed has come to nothing: there is no ratio to show."""
    write_results(tmp_path, "Swimmer-v2", "ucb", [110, 112, 0])
    write_results(tmp_path, "Swimmer-v2", "random", [100, 100, 100])
    table = paired_table(make_sections(load_all([tmp_path])))
    assert table is not None
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["HV", "ucb"] == ("–", "–")
    assert "a value is not positive" in table.note


def test_without_a_common_seed_there_is_no_table(tmp_path: Path) -> None:
    write_results(tmp_path, "Swimmer-v2", "ucb", [110])
    assert paired_table(make_sections(load_all([tmp_path]))) is None


def test_pairs_of_different_code_are_counted(tmp_path: Path) -> None:
    """Of two seeds of two methods one pair is of one commit."""
    write_results(tmp_path, "Swimmer-v2", "ucb", [110, 220])
    write_results(tmp_path, "Swimmer-v2", "random", [100, 200])
    same = paired_table(make_sections(load_all([tmp_path])))
    assert same is not None
    assert "commits" not in same.note
    path = tmp_path / "Swimmer-v2" / "ucb-seed1.json"
    path.write_text(path.read_text().replace("0123abc", "4567def"))
    mixed = paired_table(make_sections(load_all([tmp_path])))
    assert mixed is not None
    assert mixed.note.endswith("Of different commits: 1; such pairs may share less than their seed.")
