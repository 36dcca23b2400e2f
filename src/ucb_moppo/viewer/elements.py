"""Elements that all pages of the viewer share, with labels and words for those who do not see them."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from ucb_moppo.viewer.sources import MAIN

CLOCK_MS, VIDEO_CLOCK_MS = 2000, 500
GRAPH: Any = {"displaylogo": False, "responsive": True}
SPOKEN: dict[str, Any] = {"aria-live": "polite"}
"""For what changes by itself: screen readers say it."""
PAGES = {"explore": ("Explore the front", "/"), "choose": ("Which policy do I deploy?", "/choose/")}
"""The viewer's pages: their words and where they are."""


def live_page(children: list[Component], stamp: str) -> Component:
    """Frame a page that looks again by itself; ``stamp`` tells when the files of its runs change."""
    return html.Main(
        [
            dcc.Store(id="stamp", data=stamp),
            dcc.Interval(id="clock", interval=CLOCK_MS),
            html.Div(children, id="page"),
        ]
    )


def nothing_yet(title: str, fault: str) -> list[Component]:
    """Say why there is nothing on a page."""
    return [html.H1(title), alert(fault), quiet("This page looks again by itself.")]


def navigation(current: str) -> Component:
    """Link to all pages; the link to this one says so."""
    here: dict[str, Any] = {"aria-current": "page"}
    links = [
        html.A(words, href=place, **(here if name == current else {})) for name, (words, place) in PAGES.items()
    ]
    return html.Nav(links, className="pages", **aria_label("Pages"))


def card(title: str, children: list[Component], *, label: str = "", **more: Any) -> Component:
    """Frame a part of a page under its title, by which screen readers list it where ``label`` is not given."""
    return html.Section([html.H2(title), *children], className="card", **aria_label(label or title), **more)


def aria_label(label: str) -> dict[str, Any]:
    """Name a part of the page for screen readers, which list it."""
    return {"aria-label": label}


def alert(text: str) -> Component:
    return html.Div(text, className="alert", role="alert")


def quiet(text: str) -> Component:
    return html.P(text, className="quiet")


def download_link() -> Component:
    """Offer the chosen policy as a file; where it is, the page fills in."""
    return html.A("Download this policy", id="download", className="button light", href="#", download="")


def rendering_bar(share: float) -> Component:
    """Show how much of a video is rendered."""
    bar: dict[str, Any] = {"value": str(share), "max": "1", "aria-label": "rendering"}
    return html.Progress(**bar)


def video_player(row: int, version: str) -> Component:
    """Play the video of a row of the main run; another ``version`` is fetched anew."""
    return html.Video(src=f"/video/{MAIN}/{row}?{version}", controls=True, autoPlay=True, muted=True, loop=True)
