"""Names and numbers of somebody else's in tables, figures and on the terminal: words, and nothing but words."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from sample_runs import SampleRun, rewrite

from ucb_moppo.cli import main as cli
from ucb_moppo.errors import RunFormatError, UcbMoppoWarning
from ucb_moppo.report import write_report
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.table import Table, to_csv, to_latex, to_markdown
from ucb_moppo.store.picture import draw_front
from ucb_moppo.store.run import Run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return SampleRun().write(tmp_path / "run")


def change(run: Path, name: str, **values: Any) -> None:
    """Change entries of a JSON file of a run; in metrics, of its first line."""
    first, *rest = (run / name).read_text().splitlines() if name[-1] == "l" else [(run / name).read_text()]
    data = json.loads(first)
    for key, value in values.items():
        if value is ...:
            del data[key]
        else:
            data[key] = value
    rewrite(run, name, ("\n".join([json.dumps(data), *rest]) + "\n").encode())


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t"])
def test_no_cell_is_a_formula(sign: str) -> None:
    table = Table(
        "t", "t", (f"{sign}head",), ((f"{sign}1+1",),), plain=((f"{sign}head",), ((f"{sign}cmd",), (-1.5,)))
    )
    rows = list(csv.reader(io.StringIO(to_csv(table), newline="")))
    assert rows == [[f"'{sign}head"], [f"'{sign}cmd"], ["-1.5"]]


def test_numbers_stay_numbers() -> None:
    table = Table("t", "t", ("a",), (("-3.5",), ("+2e5",), ("-inf",)))
    assert to_csv(table).splitlines() == ["a", "-3.5", "+2e5", "-inf"]


def test_a_cell_stays_on_its_line() -> None:
    assert to_csv(Table("t", "t", ("one\r=two\nthree",), ())) == "one =two three\n"


def test_markdown_holds_no_html_and_no_links() -> None:
    name = "<img src=x onerror=alert(1)>|[click](javascript:x)\n# head `code`"
    text = to_markdown(Table("t", name, (name,), ((name,),), note=name))
    assert "<" not in text
    assert "](" not in text
    assert "\n# head" not in text
    assert text.count("\\|") == 4
    assert "IQM [95% interval]" in to_markdown(Table("t", "t", ("IQM [95% interval]",), ()))


def test_latex_is_escaped() -> None:
    assert r"\textbackslash{}input\{x\} \$y\$" in to_latex(Table("t", "t", (r"\input{x} $y$",), ()))


NAMES = ["$\\frac{1}{$", "$x$ = <b>", "=cmd|' /C calc'!A0"]


def test_names_with_dollars_are_drawn_as_they_are(run: Path, tmp_path: Path) -> None:
    """Were they mathematics, the first would be an error and the second would lose its dollars."""
    change(run, "summary.json", objectives=NAMES[:2], method=NAMES[2], problem="$\\alpha_{$")
    assert draw_front(Run(run), run / "front.png").exists()
    page = write_report([run], tmp_path / "report").read_text(encoding="utf-8")
    assert "<b>" not in page.replace("&lt;b&gt;", "")
    (table,) = (tmp_path / "report/tables").glob("summary-*.csv")
    assert "method,'=cmd|" in table.read_text()
    figures = "".join(path.read_text() for path in (tmp_path / "report/figures").glob("*.svg"))
    assert "mathdefault" not in figures


BAD_SUMMARIES: list[dict[str, Any]] = [
    {"finished": ...},
    {"finished": "yes"},
    {"seed": 10**400},
    {"hypervolume": 10**400},
    {"policies": -1},
    {"policies": 2.5},
    {"objectives": ["only one"]},
    {"objectives": "xy"},
    {"reference_point": [0.0]},
    {"diverged": [{"policy": 0}]},
    {"seconds": None},
    {"training_steps": [1]},
    {"held_out": "x"},
    {"held_out": {"episodes": 10, "intervals": {"hypervolume": [1.0]}}},
]


def test_what_a_summary_may_lack_is_not_asked_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = {"episodes": 10, "intervals": {"hypervolume": [None, 2.5], "theirs": [1.0, 2.0]}}
    change(run, "summary.json", evaluation_steps=..., seconds=..., held_out=measured)
    cli.main(["show", str(run)])
    said = " ".join(capsys.readouterr().out.split())
    assert "training and 0 evaluation steps in 0 s" in said
    assert "measured on 10 held-out episodes a point; 95% intervals: HV undefined to 2.5" in said


@pytest.mark.parametrize("values", BAD_SUMMARIES, ids=str)
def test_a_summary_of_other_kinds_is_refused(run: Path, tmp_path: Path, values: dict[str, Any]) -> None:
    change(run, "summary.json", **values)
    with pytest.raises(RunFormatError, match=r"summary\.json"):
        load_data(run)
    with pytest.raises(SystemExit) as ended:
        cli.main(["show", str(run)])
    assert ended.value.code == 2


BAD_LINES: list[dict[str, Any]] = [
    {"seconds": "long"},
    {"hypervolume": [1]},
    {"stage": 10**400},
    {"selected_weights": [[[1.0]]]},
    {"selected_weights": [[]]},
    {"selected_weights": 3},
    {"stage_seconds": {"training": "x"}},
    {"surrogate": {"predicted": [[1, 2], [3]]}},
    {"surrogate": {"predicted": [[[1, 2]]], "realised": [[[1, 2]]]}},
    {"extra_indicators": {"x": "y"}},
]


@pytest.mark.parametrize("values", BAD_LINES, ids=str)
def test_metrics_of_other_kinds_are_refused(run: Path, values: dict[str, Any]) -> None:
    change(run, "metrics.jsonl", **values)
    with pytest.raises(RunFormatError, match=r"metrics\.jsonl"):
        load_data(run)


@pytest.mark.parametrize("horizon", ["long", 10**400, [1], -1])
def test_settings_of_other_kinds_are_refused(run: Path, horizon: Any) -> None:
    change(run, "config.json", horizon=horizon)
    with pytest.raises(RunFormatError, match=r"config\.json"):
        load_data(run)


def test_what_is_no_file_in_a_folder_of_results_is_left_out(run: Path, tmp_path: Path) -> None:
    from ucb_moppo.bench.provenance import UNKNOWN
    from ucb_moppo.bench.result import make_result, write_result

    results = tmp_path / "results"
    write_result(results / "one.json", make_result(Run(run), UNKNOWN))
    (results / "folder.json").mkdir()
    os.mkfifo(results / "pipe.json")
    (results / "device.json").symlink_to("/dev/zero")
    (results / "notes.json").write_text('{"kind": "something else"}')
    with pytest.warns(UcbMoppoWarning, match="left out: .*json is"):
        assert [one.name for one in load_all([results])] == ["one"]
    (results / "zz.json").write_text("[" * 100_000)
    with pytest.warns(UcbMoppoWarning), pytest.raises(RunFormatError, match=r"zz\.json"):
        load_all([results])


@pytest.mark.parametrize("name", ["config.json", "summary.json", "front.csv", "metrics.jsonl", "manifest.json"])
def test_a_folder_where_a_file_should_be_is_refused(run: Path, name: str) -> None:
    (run / name).unlink()
    (run / name).mkdir()
    with pytest.raises(SystemExit) as ended:
        cli.main(["show", str(run)])
    assert ended.value.code == 2
