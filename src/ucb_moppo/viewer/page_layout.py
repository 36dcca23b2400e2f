"""The page "Explore the front": what stands where, with labels and words for those who do not see it."""

from __future__ import annotations

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component
from numpy.typing import NDArray

from ucb_moppo.objectives.indicators import HYPERVOLUME_ERROR
from ucb_moppo.report.cells import number, number_with_error
from ucb_moppo.report.protocols import describe_discount
from ucb_moppo.report.runs import RunData
from ucb_moppo.report.words import describe_curves, describe_state
from ucb_moppo.viewer.choice import Choice, Neighbour
from ucb_moppo.viewer.elements import (
    GRAPH,
    SPOKEN,
    VIDEO_CLOCK_MS,
    alert,
    card,
    download_link,
    live_page,
    navigation,
    nothing_yet,
    quiet,
    rendering_bar,
    video_player,
)
from ucb_moppo.viewer.figures import VIEWS
from ucb_moppo.viewer.renderer import VideoProgress
from ucb_moppo.viewer.sources import RunReading

POINTS_IN_WORDS = (
    "A point is a policy under one weight, which shows when you point at it and in its colour; the large red mark "
    "is what your preference picks."
)
LINES_IN_WORDS = "A line or point is a policy under one weight; the thick red one is what your preference picks."


def make_layout(reading: RunReading, other: RunData | None, stamp: str) -> Component:
    """The whole page as it is first sent; ``stamp`` tells when the files of its runs change."""
    return live_page(page(reading, other), stamp)


def page(reading: RunReading, other: RunData | None) -> list[Component]:
    """Everything below the stores: the viewer, or why there is nothing to view."""
    if reading.data is None:
        return nothing_yet("Nothing to show yet", reading.fault)
    data = reading.data
    return [
        html.Header(
            [
                navigation("explore"),
                html.H1(f"{data.problem}: what would you like more of?"),
                html.P(status_text(data, other), id="status", className="quiet"),
            ]
        ),
        html.Div([left_column(data), right_column(data)], className="columns"),
    ]


def left_column(data: RunData) -> Component:
    known = VIEWS.get(min(4, len(data.objectives)), {})
    views = [{"label": label, "value": value} for value, label in known.items()]
    style = {} if views else {"display": "none"}
    front = card(
        "The front",
        [
            html.Div(dcc.RadioItems(views, "flat", id="view", inline=True), style=style),
            dcc.Graph(id="front", config=GRAPH, style={"height": front_height(len(data.objectives))}),
            quiet(LINES_IN_WORDS if len(data.objectives) > 3 else POINTS_IN_WORDS),
        ],
    )
    return html.Div([front, history_card(data)])


def front_height(num_objectives: int) -> str:
    """Room for the front: all pairs of many objectives take more."""
    return f"{max(30, 5 * num_objectives)}rem"


def right_column(data: RunData) -> Component:
    even = [1 / len(data.objectives)] * len(data.objectives)
    return html.Div(
        [
            dcc.Store(id="preference", data=even),
            dcc.Store(id="chosen"),
            dcc.Store(id="video-shown"),
            dcc.Interval(id="video-clock", interval=VIDEO_CLOCK_MS, disabled=True),
            card("Your preference", [slider(data, j, even[j]) for j in range(len(even))]),
            card("What it picks", [html.Div(id="picked", **SPOKEN), html.P(download_link())]),
            card(
                "Watch it",
                [html.Button("Render the video", id="video-button"), html.Div(id="video", **SPOKEN)],
                label="Video",
            ),
        ]
    )


def slider(data: RunData, objective: int, share: float) -> Component:
    """One objective's share of the preference. The label holds the slider, so that it names it."""
    control = dcc.Input(
        id={"type": "share", "index": objective},
        type="range",
        min=0,
        max=1,
        step=0.001,
        value=round(share, 3),
    )
    shown = html.Output(f"{share:.1%}", id={"type": "share-shown", "index": objective})
    return html.Label([html.Span(data.objectives[objective]), control, shown], className="slider")


def history_card(data: RunData) -> Component:
    last, words = len(data.metrics) - 1, describe_curves(data)
    control = dcc.Input(id="stage", type="range", min=0, max=last, step=1, value=last)
    return card(
        "How the front grew",
        [
            html.Label([html.Span("training stage"), control, html.Output(id="stage-shown")], className="scrubber"),
            dcc.Graph(id="history", config=GRAPH, style={"height": "21rem"}),
            dcc.Graph(id="curve", config=GRAPH, style={"height": "15rem"}),
            *([quiet(words)] if words else []),
        ],
    )


def status_text(data: RunData, other: RunData | None) -> str:
    found = data.summary
    ended = found.get("finished") or found.get("stopped")
    state = describe_state(found) if ended else "not finished; this page follows it"
    discounted = f" · returns {describe_discount(data.discount)}" if data.discount != 1 else ""
    utility = f" · utility {data.utility}" if data.utility else ""
    volume = f"HV {number_with_error(found['hypervolume'], found.get(HYPERVOLUME_ERROR))}"
    compared = f" · compared with {other.name}" if other else ""
    return (
        f"run {data.name} · method {data.method} · seed {data.seed} · {found['training_steps']:,} training steps, "
        f"{state} · {volume} · EU {number(found['expected_utility'])}"
        f"{utility}{discounted}{compared}"
    )


def utility_text(data: RunData, preference: NDArray, chosen: Choice) -> str:
    """What the choice is worth to the preference, by the run's own utility; nothing where nobody imported it."""
    return "" if data.goal is None else f" · utility {number(float(data.values(preference)[chosen.row]))}"


def picked_panel(
    data: RunData,
    preference: NDArray,
    chosen: Choice,
    neighbours: Sequence[Neighbour],
    other: tuple[RunData, Choice] | None,
) -> list[Component]:
    """The policy and weight that serve a preference best, their returns, and what the neighbours trade."""
    weight = ", ".join(f"{x:.3f}" for x in chosen.weight)
    heads = ["objective", "return", *([f"{other[0].name}"] if other else [])]
    rows = [
        html.Tr(
            [
                html.Td(name),
                html.Td(number(chosen.returns[j]), className="number", id={"type": "return", "index": j}),
                *([html.Td(number(other[1].returns[j]), className="number")] if other else []),
            ]
        )
        for j, name in enumerate(data.objectives)
    ]
    return [
        html.P(
            [
                html.Strong(f"Policy {chosen.policy}", id="picked-policy"),
                f" under weight {weight}{utility_text(data, preference, chosen)}",
            ]
        ),
        html.Table(
            [
                html.Thead(html.Tr([html.Th(h, className="number" if i else "") for i, h in enumerate(heads)])),
                html.Tbody(rows),
            ]
        ),
        html.P("Its neighbours on the front would give you:", className="quiet", style={"marginTop": ".7rem"})
        if neighbours
        else quiet("Nothing on the front has noticeably more of any objective."),
        html.Ul([neighbour_item(data, one) for one in neighbours], className="neighbours"),
    ]


def neighbour_item(data: RunData, one: Neighbour) -> Component:
    wanted = " and ".join(data.objectives[j] for j in one.objectives)
    return html.Li(
        [
            html.Strong(f"for {wanted}: "),
            f"{one.difference} (policy {one.choice.policy})",
        ]
    )


def video_panel(progress: VideoProgress, data: RunData, chosen: Choice, version: str) -> list[Component]:
    """The video, or how far it is."""
    if progress.state == "missing":
        return [quiet("There is no video of this policy yet.")]
    if progress.state == "failed":
        return [alert(f"No video: {progress.error}")]
    if progress.video is None:
        waits = "Waiting for another video" if progress.state == "waiting" else f"Rendering, {progress.share:.0%}"
        return [html.P([waits], id="video-progress"), rendering_bar(progress.share)]
    returns = ", ".join(f"{n} {number(r)}" for n, r in zip(data.objectives, progress.video.returns, strict=True))
    return [
        video_player(chosen.row, version),
        quiet(f"Policy {chosen.policy}, the evaluated episode of {progress.video.steps:,} steps: {returns}"),
    ]
