"""What a notebook shows of a run or a policy: a small table in which every word is only a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

NO_MATHEMATICS = "tex2jax_ignore mathjax_ignore"
"""Classes that keep a notebook from reading a $ in a name as mathematics."""
LEFT = 'style="text-align: left"'


def to_html(title: str, rows: Mapping[str, str]) -> str:
    """A table with a title and a row per name; nothing in any of them is markup."""
    lines = "".join(
        f"<tr><th {LEFT}>{escape(name)}</th><td {LEFT}>{escape(value)}</td></tr>" for name, value in rows.items()
    )
    caption = f"<caption {LEFT}>{escape(title)}</caption>"
    return f'<table class="{NO_MATHEMATICS}">{caption}<tbody>{lines}</tbody></table>'


def numbers(values: Sequence[float], digits: int = 4) -> str:
    """A few numbers in a row, short."""
    return ", ".join(f"{value:.{digits}g}" for value in values)
