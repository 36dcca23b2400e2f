"""Published numbers: what is in print, and what of it stands beside a run."""

import csv
import io

import pytest
from sample_runs import SampleRun

from ucb_moppo.report.cells import NONE
from ucb_moppo.report.load import load_all
from ucb_moppo.report.paper import METHOD_PROTOCOLS, published
from ucb_moppo.report.paper_table import paper_table
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
