"""A table in every format, with what each format would take for its own signs."""

import csv
import io
import re

from ucb_moppo.report.method_tables import aggregate_table, comparison_table, kept_table
from ucb_moppo.report.paper_table import paper_table
from ucb_moppo.report.run_tables import points_table, summary_table
from ucb_moppo.report.table import Table, to_csv, to_html, to_latex, to_markdown

TABLE = Table("n", "A & B", ("name", "50%"), (("a_b|c", "1 ± 2"),), "note #1")


def test_csv_round_trip():
    assert list(csv.reader(io.StringIO(to_csv(TABLE)))) == [["name", "50%"], ["a_b|c", "1 ± 2"]]


def test_markdown_escapes_bars():
    assert "| a_b\\|c | 1 ± 2 |" in to_markdown(TABLE)


def test_latex_escapes_what_latex_reads():
    text = to_latex(TABLE)
    assert r"\caption{A \& B}" in text
    assert r"a\_b|c & 1 $\pm$ 2 \\" in text
    assert r"name & 50\% \\" in text


def test_latex_tables_are_balanced(swimmer):
    made = [
        comparison_table(swimmer),
        kept_table(swimmer),
        paper_table(swimmer),
        aggregate_table([swimmer]),
    ]
    for table in [*made, summary_table(swimmer.first), points_table(swimmer.first)]:
        text = to_latex(table)
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
    text = to_html(Table("n", "<b>", ("x",), (("<script>",),)))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
