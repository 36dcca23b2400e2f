"""The report as one HTML page that needs nothing else: figures, tables and scripts are inside it."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 72rem; margin: 0 auto;
  padding: 1rem 1.5rem 4rem }
h1 { font-size: 1.7rem; margin-bottom: .2rem }
h2 { margin-top: 2.6rem; border-bottom: 2px solid #0072B2; padding-bottom: .2rem }
figure { margin: 1.6rem 0 } figure img { max-width: 100%; height: auto; display: block; margin: 0 auto }
figcaption, .note { color: #555; font-size: .88rem } figcaption a { margin-left: .6em }
.table { overflow-x: auto; margin-top: 1.6rem } table { border-collapse: collapse; font-size: .9rem }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem } tbody td:first-child { font-weight: 600 }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e3e3e3; vertical-align: top }
td { font-variant-numeric: tabular-nums; white-space: nowrap } nav ul { columns: 2; padding-left: 1.2rem }
details { margin: 1rem 0 } summary { cursor: pointer } footer { margin-top: 3rem; color: #555; font-size: .85rem }
code { background: #f3f3f3; padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere }
@media print { nav, details summary { display: none } }
"""


@dataclass
class Block:
    """A part of the page with a heading of its own."""

    title: str
    parts: list[str] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())


def figure_element(svg: str, title: str, caption: str, name: str) -> str:
    """An SVG inside the page, with its text for those who cannot see it and links to its files."""
    data = base64.b64encode(svg.encode()).decode()
    links = "".join(f'<a href="figures/{html.escape(name)}.{kind}">{kind.upper()}</a>' for kind in ("png", "svg"))
    alternative = html.escape(f"{title}. {caption}", quote=True)
    return (
        f'<figure><img alt="{alternative}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{html.escape(caption)}{links}</figcaption></figure>"
    )


def folded(summary: str, content: str) -> str:
    """Content that is there when asked for."""
    return f"<details><summary>{html.escape(summary)}</summary>{content}</details>"


def make_page(title: str, lead: str, blocks: Sequence[Block], footer: str, scripts: Sequence[str] = ()) -> str:
    """The whole page as text."""
    contents = "".join(f'<li><a href="#{b.anchor}">{html.escape(b.title)}</a></li>' for b in blocks)
    body = "".join(
        f'<section><h2 id="{b.anchor}">{html.escape(b.title)}</h2>{"".join(b.parts)}</section>' for b in blocks
    )
    code = "".join(f"<script>{script}</script>" for script in scripts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>{code}</head><body><main>"
        f"<h1>{html.escape(title)}</h1><p>{html.escape(lead)}</p>"
        f'<nav aria-label="Contents"><ul>{contents}</ul></nav>{body}</main>'
        f"<footer>{footer}</footer></body></html>\n"
    )
