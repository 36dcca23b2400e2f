"""The tables of a benchmark, against numbers worked out by hand."""

from __future__ import annotations

import csv
import html
import json
import math
from pathlib import Path

import numpy as np
import pytest
from sample_results import write_results

from ucb_moppo.errors import DamagedFileError, RunFormatError
from ucb_moppo.report import write_report
from ucb_moppo.report.benchmark import SHARES, costs_table, efficiency_table, improvement_table, overview_table
from ucb_moppo.report.cells import plus_minus
from ucb_moppo.report.load import load_all
from ucb_moppo.report.method_tables import comparison_table
from ucb_moppo.report.paper import published
from ucb_moppo.report.sections import Section, make_sections
from ucb_moppo.report.table import to_html, to_latex, to_markdown

# Final HV by seed. Evaluations at 100, 1,200 and 2,300 environment steps (1, 11, 21 s) have 0, half and all of it.
SWIMMER = {"ucb": [10, 20, 30, 60], "fixed": [20, 20, 40, 5]}
HOPPER = {"ucb": [100, 90, 80], "fixed": [50, 100, 60]}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The two sets above, and PGMORL on Hopper: HV 70 with 500 steps of pre-training."""
    for problem, found in (("Swimmer-v2", SWIMMER), ("Hopper-v2", HOPPER)):
        for method, values in found.items():
            write_results(tmp_path / "results", problem, method, values)
    write_results(tmp_path / "results", "Hopper-v2", "pgmorl", [70], pretraining=500)
    return tmp_path / "results"


@pytest.fixture
def sections(results: Path) -> dict[str, Section]:
    return {section.problem: section for section in make_sections(load_all([results]))}


def rows_of(table, *, by: int = 1) -> dict:
    """The rows of a table by their first ``by`` cells."""
    return {row[:by] if by > 1 else row[0]: row[by:] for row in table.rows}


# --- reading -----------------------------------------------------------------------------------------------


def test_a_directory_of_results_gives_what_a_comparison_needs(sections: dict[str, Section]) -> None:
    assert sorted(sections) == ["Hopper-v2", "Swimmer-v2"]
    hopper = sections["Hopper-v2"]
    assert [(group.label, group.seeds) for group in hopper.groups] == [
        ("ucb", [0, 1, 2]),
        ("fixed", [0, 1, 2]),
        ("pgmorl", [0]),
    ]
    first, peer = hopper.groups[0].runs[0], hopper.groups[2].runs[0]
    assert first.steps.tolist() == [0, 1000, 2000]
    assert first.all_steps.tolist() == [100, 1200, 2300]
    assert peer.all_steps.tolist() == [600, 1700, 2800]
    assert first.series("hypervolume").tolist() == [0, 50, 100]
    assert first.front.tolist() == [[1, 2], [2, 1]]


def test_a_method_is_the_same_column_whatever_another_did_on_one_problem(tmp_path: Path) -> None:
    for problem in ("Swimmer-v2", "Hopper-v2"):
        write_results(tmp_path, problem, "ucb", [10, 20])
    config = {"problem": "Swimmer-v2", "horizon": 1000, "steps": 900, "settings": {}}
    steps = {"training": 900, "evaluation": 300, "pretraining": 0}
    write_results(tmp_path, "Swimmer-v2", "pgmorl", [5], config=config, steps=steps)
    table = overview_table(make_sections(load_all([tmp_path])))
    assert [column for column in table.columns if "paper" not in column] == ["problem", "", "ucb", "pgmorl"]
    assert table.note.startswith("Seeds: ucb 2, pgmorl 1. Training steps: ucb 2,000, pgmorl 900. Bold: ")


def test_two_protocols_never_share_a_table(tmp_path: Path) -> None:
    """Two problems under each: an overview for each protocol, with its own rows alone."""
    for problem in ("Swimmer-v2", "Hopper-v2"):
        write_results(tmp_path / "b", problem, "ucb", [10, 20])
        config = {"problem": problem, "horizon": 500, "protocol": "pgmorl", "steps": 2000, "search": {}}
        write_results(tmp_path / "a", problem, "ucb", [1, 2], config=config)
    write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "report")
    usual, other = (
        (tmp_path / "report" / "tables" / f"{name}.csv").read_text() for name in ("overview", "overview-pgmorl")
    )
    assert "protocol gymnasium" in usual
    assert "protocol pgmorl" not in usual
    assert "protocol pgmorl" in other
    assert "protocol gymnasium" not in other
    assert "All problems under protocol pgmorl" in (tmp_path / "report" / "index.html").read_text()


def test_what_holds_no_results_is_a_readable_error(tmp_path: Path, results: Path) -> None:
    with pytest.raises(RunFormatError, match="does not exist"):
        load_all([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFormatError, match="neither a run nor result files"):
        load_all([tmp_path / "empty"])
    (results / "notes.json").write_text(json.dumps(["something else"]))
    assert len(load_all([results])) == 15
    (results / "broken.json").write_text("{")
    with pytest.raises(DamagedFileError, match=r"broken\.json"):
        load_all([results])


# --- numbers -----------------------------------------------------------------------------------------------


def test_comparison_by_hand(sections: dict[str, Section]) -> None:
    """ucb on Swimmer: mean 120/4 = 30; std √((400+100+0+900)/3) = 21.60; IQM (20+30)/2 = 25, the middle two.

    fixed: mean 85/4 = 21.25; std √((1.5625·2+351.5625+264.0625)/3) = 14.36; IQM (20+20)/2 = 20.
    """
    table = comparison_table(sections["Swimmer-v2"])
    assert table.plain is not None
    columns, rows = table.plain
    found = {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
    for method, mean, std, iqm in (
        ("ucb", 30, math.sqrt(1400 / 3), 25),
        ("fixed", 21.25, math.sqrt(618.75 / 3), 20),
    ):
        values = [found[method][f"HV {part}"] for part in ("mean", "std", "IQM")]
        np.testing.assert_allclose(values, [mean, std, iqm])
    assert rows_of(table)["ucb"][1] == "30.00 ± 21.60"
    # ucb is the first row and the best in both, by mean and by IQM.
    assert table.bold == {(0, 2), (0, 3), (0, 4), (0, 5)}


def test_improvement_table_pairs_every_method_with_every_other(sections: dict[str, Section]) -> None:
    table = improvement_table([sections["Hopper-v2"]])
    assert table.columns == ("", "method", "over ucb", "over fixed", "over pgmorl")
    rows = rows_of(table, by=2)
    assert rows["HV", "ucb"][0] == "–"
    assert rows["HV", "ucb"][1].startswith("0.72 [")
    # 100, 90 and 80 all beat PGMORL's single 70, in every resample.
    assert rows["HV", "ucb"][2] == "1.00 [1.00, 1.00]"
    assert rows["HV", "pgmorl"][0] == "0.00 [0.00, 0.00]"
    assert rows["EU", "fixed"][0].startswith("0.28 [")
    everything = rows_of(improvement_table(list(sections.values())), by=2)
    assert everything["HV", "ucb"][1].startswith("0.67 [")  # (0.625 + 0.722) / 2
    assert everything["HV", "ucb"][2] == "1.00 [1.00, 1.00]"  # on the one problem that has both


def test_steps_and_seconds_to_shares_of_the_best_by_hand(sections: dict[str, Section]) -> None:
    """Best on Hopper: 100. Half of it: ucb's 100 has it at 1,200 steps, 90 and 80 at 2,300; median 2,300.

    90%: ucb's 100 and 90 (exactly) at 2,300, 80 never; of fixed only 100. PGMORL has 70 at 2,800 steps, with its
    500 of pre-training.
    """
    table = efficiency_table(sections["Hopper-v2"])
    assert table.columns[1:5] == ("50%: steps", "50%: time", "75%: steps", "75%: time")
    rows = rows_of(table)
    assert rows["ucb"] == (
        *("2,300 (3 of 3)", "21 s (3 of 3)"),
        *("2,300 (3 of 3)", "21 s (3 of 3)"),
        *("2,300 (2 of 3)", "21 s (2 of 3)"),
        *("not reached (1 of 3)", "not reached (1 of 3)"),
    )
    assert rows["fixed"][2:4] == ("not reached (1 of 3)", "not reached (1 of 3)")
    assert rows["pgmorl"] == ("2,800 (1 of 1)", "21 s (1 of 1)", *["not reached (0 of 1)"] * 6)
    assert table.plain is not None
    plain = {row[:3]: row[3:] for row in table.plain[1]}
    assert plain["ucb", 0, 0.5] == (1200, 11)
    assert plain["fixed", 0, 0.75] == (None, None)
    assert len(plain) == 7 * len(SHARES)
    # On Swimmer two of four seeds have half of 60: the median lies among those that do not.
    assert rows_of(efficiency_table(sections["Swimmer-v2"]))["ucb"][0] == "not reached (2 of 4)"


def test_costs_count_every_kind_of_step(sections: dict[str, Section]) -> None:
    rows = rows_of(costs_table(sections["Hopper-v2"]))
    assert rows["ucb"] == ("3", "2,000", "0", "300", "2,300", "21", "3 of 3")
    assert rows["pgmorl"] == ("1", "2,000", "500", "300", "2,800", "21", "1 of 1")
    assert "abacus, 1 core(s) a run" in costs_table(sections["Hopper-v2"]).note


# --- the overview ------------------------------------------------------------------------------------------


def test_overview_has_ours_and_the_papers_apart(sections: dict[str, Section]) -> None:
    table = overview_table([sections["Swimmer-v2"], sections["Hopper-v2"]])
    assert table.columns[:5] == ("problem", "", "ucb", "fixed", "pgmorl")
    assert table.columns[5:7] == ("UCB-MOPPO (paper, protocol B)", "Mean-MOPPO (paper, protocol B)")
    assert "PGMORL (paper, protocol A)" in table.columns
    assert "CAPQL (paper, protocol not stated)" in table.columns
    rows = rows_of(table, by=2)
    assert rows["Swimmer-v2", "HV"][:3] == ("30.00 ± 21.60", "21.25 ± 14.36", "–")
    assert rows["Swimmer-v2", "EU"][0] == "3.000 ± 2.160"
    theirs = published("Swimmer-v2")[0]
    assert rows["Swimmer-v2", "HV"][3] == plus_minus(theirs.hypervolume, theirs.hypervolume_std)
    assert table.note.startswith(
        "Seeds: ucb 3 to 4, fixed 3 to 4, pgmorl 1. Training steps: ucb 2,000, fixed 2,000, pgmorl 2,500. Bold: "
    )
    assert table.bold == {(0, 2), (1, 2), (2, 2), (3, 2)}  # ucb's mean is the best everywhere
    assert table.plain is not None
    plain = {row[:4]: row[4:] for row in table.plain[1]}
    assert plain["Swimmer-v2", "HV", "ucb", "this report"] == ("B", 4, 30.0, pytest.approx(math.sqrt(1400 / 3)))
    assert plain["Swimmer-v2", "HV", "PGMORL", "paper"][0] == "A"


def test_another_protocol_has_no_numbers_of_the_paper_beside_it(tmp_path: Path) -> None:
    config = {"problem": "Swimmer-v2", "horizon": 100, "steps": 2000, "search": {}}
    write_results(tmp_path, "Swimmer-v2", "ucb", [1, 2], config=config)
    assert overview_table(make_sections(load_all([tmp_path]))).columns == ("problem", "", "ucb")


def test_what_stands_out_does_so_in_every_format(sections: dict[str, Section]) -> None:
    table = comparison_table(sections["Swimmer-v2"])
    assert "**30.00 ± 21.60**" in to_markdown(table)
    assert r"\textbf{30.00 $\pm$ 21.60}" in to_latex(table)
    assert "<strong>30.00 ± 21.60</strong>" in to_html(table)
    assert "<strong>21.25" not in to_html(table)


def test_the_report_of_a_directory_of_results(results: Path, tmp_path: Path) -> None:
    """One page with the overview on top, figures over training steps, all steps and time, and tables as files."""
    page = write_report([results], tmp_path / "out").read_text(encoding="utf-8")
    order = [
        page.index(f">{html.escape(title)}</h2>") for title in ("All problems", "Hopper-v2: methods side by side")
    ]
    assert order == sorted(order)
    assert page.index("Methods on all problems") < page.index("Methods on Hopper-v2")
    for name in ("overview", "aggregate", "improvement-all-problems", "efficiency-Hopper-v2", "costs-Swimmer-v2"):
        for suffix in ("csv", "md", "tex"):
            assert (tmp_path / "out" / "tables" / f"{name}.{suffix}").is_file(), name
    for name in ("bands-Hopper-v2", "bands-environment-Hopper-v2", "bands-time-Hopper-v2", "fronts-Hopper-v2"):
        assert (tmp_path / "out" / "figures" / f"{name}.svg").is_file(), name
    rows = list(csv.DictReader((tmp_path / "out" / "tables" / "improvement-all-problems.csv").open()))
    (row,) = [r for r in rows if (r["indicator"], r["method"], r["over"]) == ("HV", "ucb", "fixed")]
    np.testing.assert_allclose(float(row["probability"]), (10 / 16 + 6.5 / 9) / 2)
    assert "Run " not in page.split("</nav>")[0]  # no pages of single runs: their directories are not here
