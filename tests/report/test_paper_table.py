"""Published numbers: what is in print, and what of it stands beside a run."""

import csv
import io
import json
import re

import pytest
from sample_runs import SampleRun, rewrite

from ucb_moppo.report.benchmark import overview_table
from ucb_moppo.report.cells import NONE
from ucb_moppo.report.load import load_all
from ucb_moppo.report.paper import METHOD_PROTOCOLS, published, published_class_c
from ucb_moppo.report.paper_table import paper_table
from ucb_moppo.report.protocols import protocol_class
from ucb_moppo.report.sections import make_sections
from ucb_moppo.report.table import to_csv


def test_paper_has_six_problems_and_eight_methods():
    for problem in ("Swimmer-v2", "HalfCheetah-v2", "Walker2d-v2", "Ant-v2", "Hopper-v2", "Hopper-v3"):
        assert [one.method for one in published(problem)] == list(METHOD_PROTOCOLS)
    assert published("Hopper-v3")[0][2:4] == pytest.approx((3.62e10, 0.01e10))
    assert published("Hopper-v3")[4].policies == 4023
    assert published("mo-hopper-v5") == []


def test_paper_numbers_have_a_column_per_protocol(swimmer):
    table = paper_table(swimmer)
    assert table is not None
    columns = list(table.columns)
    for row in table.rows:
        filled = {columns[i].split("protocol ")[1] for i in range(2, len(row)) if row[i] != NONE}
        expected = "B" if row[1].startswith("this report") else METHOD_PROTOCOLS[row[0]]
        assert filled == {f"{expected})"}
    rows = {row[0]: row for row in table.rows if row[1].startswith("paper")}
    assert rows["UCB-MOPPO"][columns.index("HV (protocol B)")] == "56,000 ± 1,800"
    assert rows["PGMORL"][columns.index("EU (protocol A)")] == "123.0 ± 42.0"


def test_paper_csv_has_bare_numbers_and_the_protocol(swimmer):
    rows = list(csv.DictReader(io.StringIO(to_csv(paper_table(swimmer)))))
    ours, theirs = rows[0], next(row for row in rows if row["method"] == "PGMORL")
    assert [ours[name] for name in ("source", "protocol")] == ["this report, 3 seeds", "B"]
    assert float(ours["HV mean"]) == 30.0
    assert [theirs[name] for name in ("source", "protocol")] == ["paper, 3 seeds", "A"]
    assert [float(theirs[f"{one} mean"]) for one in ("HV", "EU")] == pytest.approx([16_700, 123])


def test_runs_of_another_horizon_get_no_paper_column(tmp_path):
    path = SampleRun(problem="Swimmer-v2", horizon=500).write(tmp_path / "short")
    table = paper_table(make_sections(load_all([path]))[0])
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
    table = paper_table(sections[0])
    assert table is not None
    at = list(table.columns).index("HV (protocol A)")
    rows = {(row[0], row[1].split(" ")[0]): row for row in table.rows}
    assert rows["ucb", "this"][at].startswith("5.000e6")
    assert rows["Hyper-MORL", "Hyper-MORL"][at] == "5.370e6 ± 0.350e6"
    assert rows["PGMORL", "run"][at] == "4.500e6"
    assert rows["COLA", "COLA"][at + 1] == NONE
    other = paper_table(sections[1])
    assert other is not None
    assert "Hyper-MORL" not in {row[0] for row in other.rows}


# As it is printed: hypervolume ± its deviation / expected utility ± its deviation / sparsity.
CLASS_C = {
    "mo-hopper-2obj-v5": [
        ("C-MORL", "1.365±.033e5 / 252.9±2.8 / 50"),
        ("D3PO", "1.30±.03e5 / 247±1 / 26"),
        ("PG-MORL", "1.20e5 / – / –"),
    ],
    "mo-ant-2obj-v5": [
        ("C-MORL", "1.319±.167e5 / 251±26 / 625"),
        ("D3PO", "1.91±.18e5 / 314±21 / 660"),
        ("PG-MORL", "0.35e5 / – / –"),
        ("GPI-LS", "– / 428 / –"),
    ],
    "mo-humanoid-v5": [
        ("C-MORL", "3.101±.068e5 / 453±5 / 3371"),
        ("C-MORL", "3.43e5 / 478 / –"),
        ("D3PO", "3.76±.11e5 / 511±9 / 30"),
        ("PG-MORL", "2.62e5 / – / –"),
    ],
    "mo-hopper-v5": [
        ("C-MORL", "2.194±.033e7 / 182.0±1.3 / 54"),
        ("D3PO", "2.12±.16e7 / 174 / 4"),
        ("PG-MORL", "1.59e7 / – / –"),
    ],
    "mo-ant-v5": [
        ("C-MORL", "2.607±.261e7 / 207±15 / 30"),
        ("D3PO", "2.68±.21e7 / 199±8 / 4"),
        ("PG-MORL", "0.94e7 / – / –"),
        ("GPI-LS", "– / 241 / –"),
    ],
}


def read_printed(text):
    """A value and its deviation, both None where there is a dash: "1.30±.03e5" is 130,000 ± 3,000."""
    if text == "–":
        return None, None
    value, deviation, scale = re.fullmatch(r"([\d.]+)(?:±([\d.]+))?(e\d+)?", text).groups()
    unit = float(f"1{scale or 'e0'}")
    return float(value) * unit, float(deviation) * unit if deviation else None


@pytest.mark.parametrize("problem", CLASS_C)
def test_numbers_of_class_c_are_those_in_print(problem):
    found = published_class_c(problem)
    assert [(one.method, one.protocol) for one in found] == [(method, "C") for method, _ in CLASS_C[problem]]
    for one, (_, printed) in zip(found, CLASS_C[problem], strict=True):
        volume, utility, sparsity = map(read_printed, printed.split(" / "))
        expected = (*volume, *utility, sparsity[0])
        shown = one.hypervolume, one.hypervolume_std, one.expected_utility, one.expected_utility_std, one.sparsity
        assert [value is None for value in shown] == [value is None for value in expected]
        given = [value for value in shown if value is not None]
        assert given == pytest.approx([value for value in expected if value is not None])


def test_class_c_says_which_c_morl_is_which():
    recomputed, printed = (one.source for one in published_class_c("mo-humanoid-v5")[:2])
    assert "recomputed from logs of 5 runs" in recomputed
    assert "1,000 steps an episode" in recomputed
    assert printed.startswith("printed for C-MORL")
    assert published_class_c("mo-swimmer-v5") == []


@pytest.mark.parametrize(
    ("problem", "protocol", "horizon", "own"),
    [
        ("mo-hopper-2obj-v5", "cmorl", 500, 100),
        ("mo-hopper-v5", "cmorl", 500, 10),
        ("Swimmer-v2", "gymnasium", 1000, 99),  # the first lattice of two objectives with 100 weights
        ("Walker2d-v2", "pgmorl", 500, 99),
    ],
)
def test_a_utility_over_other_weights_is_of_no_published_protocol(tmp_path, problem, protocol, horizon, own):
    """With 7 divisions EU is a mean over other weights: never beside printed numbers, nor in the CSV."""
    usual, other = (
        SampleRun(problem=problem, horizon=horizon, settings={"protocol": protocol} | more).write(tmp_path / name)
        for name, more in (("usual", {}), ("other", {"utility_divisions": 7}))
    )
    (section,) = make_sections(load_all([usual]))
    assert section.first.utility_divisions == own
    assert paper_table(section).rows[0][1] == "this report, 1 seed"
    (section,) = make_sections(load_all([other]))
    table = paper_table(section)
    assert not any(row[1].startswith("this report") for row in table.rows)
    assert "this report" not in to_csv(table)
    assert "weights of EU" in table.note
    assert overview_table([section]).columns == ("problem", "", "ucb")
    assert [row[4] for row in overview_table([section]).plain[1]] == [None, None]


def test_a_run_that_does_not_say_its_weights_has_the_usual_ones(tmp_path):
    """Two objectives: 99 divisions are the fewest with 100 weights."""
    path = SampleRun(problem="Swimmer-v2").write(tmp_path / "old")
    config = json.loads((path / "config.json").read_text())
    del config["utility_divisions"]
    rewrite(path, "config.json", json.dumps(config).encode())
    (run,) = load_all([path])
    assert (run.utility_divisions, protocol_class(run)) == (99, "B")
