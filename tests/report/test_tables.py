"""Tables: their numbers against hand-computed ones, and every format."""

import csv
import io
import math
import re

import numpy as np
import pytest
from sample_runs import SampleRun, add_indicator

from ucb_moppo.report import tables
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.paper import METHOD_PROTOCOLS, published
from ucb_moppo.report.sections import make_sections


@pytest.fixture
def sections(tmp_path):
    """Two methods on Swimmer-v2, hypervolumes 10, 20, 60 and 30."""
    paths = []
    for method, seed, hv in (("ucb", 0, 10.0), ("ucb", 1, 20.0), ("ucb", 2, 60.0), ("mean", 0, 30.0)):
        found = {"hypervolume": hv, "expected_utility": hv / 10}
        name = f"{method}{seed}"
        paths.append(SampleRun(problem="Swimmer-v2", method=method, seed=seed, found=found).write(tmp_path / name))
    return make_sections(load_all(paths))


def plain_row(table, label):
    columns, rows = table.plain
    return dict(zip(columns, next(row for row in rows if row[0] == label), strict=True))


def test_comparison_has_mean_spread_and_iqm(sections):
    table = tables.comparison_table(sections[0])
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


def test_paper_numbers_have_a_column_per_protocol(sections):
    table = tables.paper_table(sections[0])
    assert table is not None
    columns = list(table.columns)
    for row in table.rows:
        filled = {columns[i].split("protocol ")[1] for i in range(2, len(row)) if row[i] != tables.NONE}
        expected = "B" if row[1].startswith("this report") else METHOD_PROTOCOLS[row[0]]
        assert filled == {f"{expected})"}
    rows = {row[0]: row for row in table.rows if row[1].startswith("paper")}
    assert rows["UCB-MOPPO"][columns.index("HV (protocol B)")] == "56,000 ± 1,800"
    assert rows["PGMORL"][columns.index("EU (protocol A)")] == "123.0 ± 42.0"


def test_paper_csv_has_bare_numbers_and_the_protocol(sections):
    rows = list(csv.DictReader(io.StringIO(tables.to_csv(tables.paper_table(sections[0])))))
    ours, theirs = rows[0], next(row for row in rows if row["method"] == "PGMORL")
    assert [ours[name] for name in ("source", "protocol")] == ["this report, 3 seeds", "B"]
    assert float(ours["HV mean"]) == 30.0
    assert [theirs[name] for name in ("source", "protocol")] == ["paper, 3 seeds", "A"]
    assert [float(theirs[f"{one} mean"]) for one in ("HV", "EU")] == pytest.approx([16_700, 123])


def test_runs_of_another_horizon_get_no_paper_column(tmp_path):
    path = SampleRun(problem="Swimmer-v2", horizon=500).write(tmp_path / "short")
    table = tables.paper_table(make_sections(load_all([path]))[0])
    assert table is not None
    assert not any(row[1].startswith("this report") for row in table.rows)
    assert "another horizon" in table.note


def test_runs_under_pgmorls_protocol_stand_beside_class_a_alone(tmp_path):
    under_a = SampleRun(
        problem="Walker2d-v2", horizon=500, settings={"protocol": "pgmorl"}, found={"hypervolume": 5e6}
    )
    under_b = SampleRun(problem="Walker2d-v2")
    sections = make_sections(load_all([under_a.write(tmp_path / "a"), under_b.write(tmp_path / "b")]))
    assert len(sections) == 2  # never in one table with the other protocol
    table = tables.paper_table(sections[0])
    assert table is not None
    at = list(table.columns).index("HV (protocol A)")
    rows = {(row[0], row[1].split(" ")[0]): row for row in table.rows}
    assert rows["ucb", "this"][at].startswith("5.000e6")
    assert rows["Hyper-MORL", "Hyper-MORL"][at] == "5.370e6 ± 0.350e6"
    assert rows["PGMORL", "run"][at] == "4.500e6"
    assert rows["COLA", "COLA"][at + 1] == tables.NONE
    other = tables.paper_table(sections[1])
    assert other is not None
    assert "Hyper-MORL" not in {row[0] for row in other.rows}


def test_paper_has_six_problems_and_eight_methods():
    for problem in ("Swimmer-v2", "HalfCheetah-v2", "Walker2d-v2", "Ant-v2", "Hopper-v2", "Hopper-v3"):
        assert [one.method for one in published(problem)] == list(METHOD_PROTOCOLS)
    assert published("Hopper-v3")[0][2:4] == pytest.approx((3.62e10, 0.01e10))
    assert published("Hopper-v3")[4].policies == 4023
    assert published("mo-hopper-v5") == []


def test_kept_counts_policies_and_parameters(sections):
    rows = tables.kept_table(sections[0]).rows
    assert rows[0] == ("ucb", "this report", "3", "1,234")
    assert ("PGMORL", "paper", "168", tables.NONE) in rows


def test_kept_csv_has_a_row_per_seed(sections):
    rows = list(csv.reader(io.StringIO(tables.to_csv(tables.kept_table(sections[0])))))
    assert rows[0] == ["method", "source", "seed", "policies", "parameters"]
    assert rows[1:4] == [["ucb", "this report", str(seed), "3", "1234"] for seed in (0, 1, 2)]
    assert ["PGMORL", "paper", "", "168", ""] in rows


def test_summary_is_rounded_for_the_eye_and_whole_in_the_csv(tmp_path):
    data = load_data(SampleRun(found={"hypervolume": 21962027.25, "cardinality": 14}).write(tmp_path / "one"))
    table = tables.summary_table(data)
    shown, bare = dict(table.rows), dict(csv.reader(io.StringIO(tables.to_csv(table))))
    assert (shown["HV"], bare["HV"]) == ("2.196e7", "21962027.25")
    assert (shown["points on the front"], bare["points on the front"]) == ("14", "14")
    assert (shown["training steps"], bare["training steps"]) == ("9,000", "9000")


def test_extra_indicators_have_a_row_and_a_column_where_a_run_has_them(tmp_path):
    paths = [SampleRun(seed=seed).write(tmp_path / f"r{seed}") for seed in (0, 1)]
    paths.append(SampleRun(method="mean").write(tmp_path / "mean"))
    before = tables.comparison_table(make_sections(load_all(paths))[0])
    for path, last in zip(paths, (0.25, 0.75), strict=False):
        add_indicator(path, "my_lab:spread", [0.0, 0.0, 0.0, last])
    table = tables.comparison_table(make_sections(load_all(paths))[0])
    assert table.columns == (*before.columns, "my_lab:spread: mean ± std")
    # The mean of 0.25 and 0.75 is ½; deviations ∓¼ over n − 1 = 1 give √⅛ = 0.35355.
    assert [row[-1] for row in table.rows] == ["0.500 ± 0.354", tables.NONE]
    assert [row[:-1] for row in table.rows] == list(before.rows)
    assert plain_row(table, "ucb")["my_lab:spread mean"] == 0.5
    assert table.bold == before.bold
    with_it, without = (dict(tables.summary_table(load_data(path)).rows) for path in (paths[0], paths[2]))
    assert with_it["my_lab:spread"] == "0.250"
    assert list(without) == [name for name in with_it if name != "my_lab:spread"]


def test_aggregate_scores_are_shares_of_the_best_run(sections, tmp_path):
    other = SampleRun(problem="Hopper-v2", seed=0).write(tmp_path / "d")
    table = tables.aggregate_table([*sections, *make_sections(load_all([other]))])
    # ucb: 10/60, 20/60, 60/60 on Swimmer and 1 on Hopper; mean: 30/60.
    assert plain_row(table, "ucb")["mean"] == pytest.approx((1 / 6 + 1 / 3 + 1 + 1) / 4)
    assert plain_row(table, "mean")["mean"] == 0.5


def test_points_table_is_the_front(tmp_path):
    data = load_data(SampleRun().write(tmp_path / "one"))
    _, rows = tables.points_table(data).plain
    assert len(rows) == int(data.on_front.sum())
    firsts = [row[3] for row in rows]
    assert firsts == sorted(firsts)


def test_numbers_for_the_eye():
    told = [tables.number(x) for x in (0.0, 12345.678, 3.62e10, -0.00012, 1.0, float("nan"), None)]
    assert told == ["0.000", "12,346", "3.620e10", "-1.200e-4", "1.000", tables.NONE, tables.NONE]


def test_numbers_of_one_cell_share_exponent_and_decimals():
    assert tables.format_alike(8.4e6, 5e5) == ["8.400e6", "0.500e6"]
    assert tables.format_alike(999_000.0, 998_000.0, 1_001_000.0) == ["0.999e6", "0.998e6", "1.001e6"]
    assert tables.format_alike(1326.83, 63.75) == ["1,327", "64"]
    assert tables.format_alike(0.5, 12.345) == ["0.50", "12.35"]
    assert tables.format_alike(0.0, 0.0) == ["0.000", "0.000"]


TABLE = tables.Table("n", "A & B", ("name", "50%"), (("a_b|c", "1 ± 2"),), "note #1")


def test_csv_round_trip():
    assert list(csv.reader(io.StringIO(tables.to_csv(TABLE)))) == [["name", "50%"], ["a_b|c", "1 ± 2"]]


def test_markdown_escapes_bars():
    assert "| a_b\\|c | 1 ± 2 |" in tables.to_markdown(TABLE)


def test_latex_escapes_what_latex_reads():
    text = tables.to_latex(TABLE)
    assert r"\caption{A \& B}" in text
    assert r"a\_b|c & 1 $\pm$ 2 \\" in text
    assert r"name & 50\% \\" in text


def test_latex_tables_are_balanced(sections):
    one = sections[0]
    made = [
        tables.comparison_table(one),
        tables.kept_table(one),
        tables.paper_table(one),
        tables.aggregate_table([one]),
    ]
    for table in [*made, tables.summary_table(one.first), tables.points_table(one.first)]:
        text = tables.to_latex(table)
        for name in ("table", "tabular"):
            assert text.count(f"\\begin{{{name}}}") == text.count(f"\\end{{{name}}}") == 1
        bare = re.sub(r"\\[\\&%$#_{}]", "", text)
        assert bare.count("{") == bare.count("}")
        assert bare.count("$") % 2 == 0
        body = text.partition("\\toprule\n")[2].partition("\\bottomrule")[0].replace("\\midrule\n", "")
        for line in body.splitlines():
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == len(table.columns) - 1


def test_html_escapes_markup():
    text = tables.to_html(tables.Table("n", "<b>", ("x",), (("<script>",),)))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_numbers_beyond_all_others():
    """Neither has an exponent that it could be divided by: ten to the power of −324 is nought."""
    assert tables.number(math.inf) == "inf"
    assert tables.format_alike(-math.inf, 2.0) == ["-inf", "2"]
    assert tables.number(5e-324) == "0.000e-300"
