"""A table: made once as text cells, written as CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ucb_moppo.report.cells import NONE
from ucb_moppo.report.slug import slug
from ucb_moppo.store.guarded import write_below

FORMULA_SIGNS = ("=", "+", "-", "@", "\t")
"""What spreadsheets take for the beginning of a formula."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    NONE: "--",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
Plain = tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]
"""The columns and rows of a CSV."""


@dataclass(frozen=True)
class Table:
    """Cells are text to read; ``plain`` holds the same as bare numbers, for CSV."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    plain: Plain | None = None
    """Columns and rows of the CSV where they differ: a number per cell, in full precision."""
    bold: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of the cells that stand out."""


def write_table(table: Table, out: Path) -> None:
    """Write the table in all three file formats into the report's folder of tables."""
    for suffix, make in (("csv", to_csv), ("md", to_markdown), ("tex", to_latex)):
        write_below(out, f"tables/{slug(table.name)}.{suffix}", make(table).encode())


def marked_rows(table: Table, escape: Callable[[str], str], mark: str) -> list[list[str]]:
    """Escape every cell, and mark those that stand out."""
    return [
        [mark.format(escape(cell)) if (i, j) in table.bold else escape(cell) for j, cell in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]


def to_csv(table: Table) -> str:
    """Write the plain numbers where the table has them, else its cells."""
    columns, rows = table.plain or (table.columns, table.rows)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(plain_cell, row) for row in (columns, *rows)])
    return text.getvalue()


def plain_cell(cell: object) -> object:
    """A cell on one line that no spreadsheet takes for a formula: words like one get an apostrophe before them."""
    if not isinstance(cell, str):
        return cell
    words = " ".join(cell.splitlines())
    return f"'{words}" if words.startswith(FORMULA_SIGNS) and not is_number(words) else words


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_markdown(table: Table) -> str:
    """Write the title, a Markdown table and the note."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    heads = [line([markdown_escape(cell) for cell in table.columns]), line(["---"] * len(table.columns))]
    lines = [*heads, *map(line, marked_rows(table, markdown_escape, "**{}**"))]
    note = f"\n{markdown_escape(table.note)}\n" if table.note else ""
    return f"**{markdown_escape(table.title)}**\n\n" + "\n".join(lines) + "\n" + note


def markdown_escape(text: str) -> str:
    """Words that stay in their cell, and neither make HTML nor a link or picture."""
    text = html.escape(" ".join(text.splitlines()), quote=False)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("](", "]\\(").replace("`", "\\`")


def to_latex(table: Table) -> str:
    """Write a booktabs table; every character that means something to LaTeX is escaped."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    note = f"\n\n\\footnotesize {latex_escape(table.note)}" if table.note else ""
    head = line([latex_escape(cell) for cell in table.columns])
    body = "\n".join(map(line, marked_rows(table, latex_escape, r"\textbf{{{}}}")))
    return (
        "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n"
        f"\\caption{{{latex_escape(table.title)}}}\n"
        f"\\begin{{tabular}}{{{'l' * len(table.columns)}}}\n\\toprule\n{head}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}{note}\n\\end{{table}}\n"
    )


def latex_escape(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def to_html(table: Table) -> str:
    """Write an HTML table with the title as its caption, and the note below it."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    names = [html.escape(cell) for cell in table.columns]
    head = f"<thead>{line(names, 'th')}</thead>" if any(names) else ""
    body = "".join(line(row, "td") for row in marked_rows(table, html.escape, "<strong>{}</strong>"))
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    caption = f"<caption>{html.escape(table.title)}</caption>"
    return f'<div class="table"><table>{caption}{head}<tbody>{body}</tbody></table></div>{note}'
