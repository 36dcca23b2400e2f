"""The elements of the page "Which policy do I deploy?", with labels and words for those who do not see it."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import dcc, html, no_update
from dash.development.base_component import Component

from ucb_moppo.decide.advice import Advice, count_of, describe_remaining
from ucb_moppo.decide.bounds import Bounds
from ucb_moppo.decide.exchange import describe_rates, find_neighbours
from ucb_moppo.decide.forecast import Forecast, describe_chances
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.questions import MAX_QUESTIONS, Question
from ucb_moppo.decide.shortlist import compare
from ucb_moppo.decide.words import describe_outcome, in_short
from ucb_moppo.report.runs import RunData
from ucb_moppo.viewer import figures
from ucb_moppo.viewer.elements import (
    GRAPH,
    SPOKEN,
    VIDEO_CLOCK_MS,
    alert,
    aria_label,
    card,
    download_link,
    live_page,
    navigation,
    nothing_yet,
    quiet,
    rendering_bar,
    video_player,
)
from ucb_moppo.viewer.forecaster import NUM_EPISODES, ForecastProgress
from ucb_moppo.viewer.renderer import VideoProgress
from ucb_moppo.viewer.sources import RunReading

RULES = {
    "questions": "Ask me: A or B?",
    "knee": "The knee, where a little more of one costs most of the others",
    "aspirations": "As close as can be to what I aspire to",
    "most": "The most of one objective",
}
EXCLUDED_COLOUR, ASKED_COLOUR = "#c9c9c9", "#E69F00"
SIDES = ("A", "B")
NUM_OUTPUTS = 18
"""Of the callback that shows what wishes lead to."""


def make_layout(reading: RunReading, stamp: str) -> Component:
    """The whole page as it is first sent."""
    return live_page(page(reading), stamp)


def page(reading: RunReading) -> list[Component]:
    """Everything below the stores: the page, or why there is nothing to choose from."""
    if reading.data is None:
        return nothing_yet("Nothing to choose from yet", reading.fault)
    data = reading.data
    return [
        html.Header(
            [
                navigation("choose"),
                html.H1(f"{data.problem}: which policy do I deploy?"),
                quiet(f"run {data.name} · {count_of(int(data.on_front.sum()), 'point')} on the front"),
            ]
        ),
        html.Div([html.Div([bounds_card(data), rule_card(data)]), front_card()], className="columns even"),
        question_card(),
        html.Div([shortlist_card(), forecast_card()], className="columns even"),
    ]


# --- what is said ------------------------------------------------------------------------------------------


def bounds_card(data: RunData) -> Component:
    """A floor and a ceiling per objective, and how many policies they leave."""
    front = data.front
    heads = [html.Th(words, scope="col") for words in ("objective", "at least", "at most", "the front has")]
    rows = [
        html.Tr(
            [
                html.Th(name, scope="row"),
                html.Td(amount_field("floor", j, f"{name}, at least")),
                html.Td(amount_field("ceiling", j, f"{name}, at most")),
                html.Td(f"{in_short(front[:, j].min())} to {in_short(front[:, j].max())}", className="quiet"),
            ]
        )
        for j, name in enumerate(data.objectives)
    ]
    table = html.Table([html.Thead(html.Tr(heads)), html.Tbody(rows)], className="bounds")
    return card("1. What must hold?", [table, html.Div(id="remaining", className="remaining", **SPOKEN)])


def amount_field(kind: str, objective: int, label: str) -> Component:
    """A field for a number, whose label only those who hear the page are told."""
    return html.Label([html.Span(label, className="unseen"), amount_input(kind, objective)], className="amount")


def amount_input(kind: str, objective: int) -> Component:
    """A field for a number, as text: what is half typed is nobody's fault."""
    return dcc.Input(id={"type": kind, "index": objective}, type="text", autoComplete="off")


def rule_card(data: RunData) -> Component:
    """How to choose among what is left."""
    rules = [{"label": words, "value": rule} for rule, words in RULES.items()]
    aims = [
        html.Label([html.Span(name), amount_input("aspiration", j)], className="aim")
        for j, name in enumerate(data.objectives)
    ]
    most = dcc.RadioItems(
        [{"label": name, "value": j} for j, name in enumerate(data.objectives)], 0, id="most", inline=True
    )
    return card(
        "2. How to choose?",
        [
            html.Div(
                dcc.RadioItems(rules, "questions", id="rule", className="rules"),
                role="group",
                **aria_label("How to choose"),
            ),
            html.Div(aims, id="aspirations", hidden=True, role="group", **aria_label("What you aspire to")),
            html.Div(most, id="most-of", hidden=True, role="group", **aria_label("The most of")),
        ],
    )


def front_card() -> Component:
    words = "Grey is what your bounds exclude. Rings are the short list, the star is its first."
    return card("The front", [dcc.Graph(id="front", config=GRAPH, style={"height": "26rem"}), quiet(words)])


def question_card() -> Component:
    """Two policies side by side, and what can be said about them."""
    sides = [
        html.Div(
            [html.H3(side), html.Div(id=f"outcome-{name}"), html.Div(id=f"video-{name}", className="clip")],
            className="side",
            **aria_label(f"Policy {side}"),
            role="group",
        )
        for side, name in zip(SIDES, ("first", "second"), strict=True)
    ]
    buttons = html.Div(
        [
            html.Button("A is better", id="say-first"),
            html.Button("B is better", id="say-second"),
            html.Button("No difference", id="say-same", className="light"),
            html.Button("Undo", id="undo", className="light", disabled=True),
            html.Button("Stop here", id="stop", className="light"),
        ],
        className="buttons",
    )
    videos = dcc.Checklist([{"label": "with videos", "value": "yes"}], ["yes"], id="with-videos")
    return card(
        "3. A or B?",
        [
            dcc.Store(id="answers", data=[]),
            dcc.Store(id="stopped", data=False),
            dcc.Store(id="question"),
            dcc.Store(id="videos-shown"),
            dcc.Interval(id="videos-clock", interval=VIDEO_CLOCK_MS, disabled=True),
            html.Div(id="question-words", **SPOKEN),
            html.Div([html.Div(sides, className="sides"), videos], id="question-videos"),
            buttons,
        ],
        id="question-card",
    )


def shortlist_card() -> Component:
    return card(
        "4. The short list",
        [
            html.Div(id="because", **SPOKEN),
            html.Div(
                dcc.RadioItems([], id="shortlist", className="shortlist"),
                role="group",
                **aria_label("Take one of the short list"),
            ),
        ],
    )


def forecast_card() -> Component:
    return card(
        "5. What it will do",
        [
            dcc.Interval(id="forecast-clock", interval=VIDEO_CLOCK_MS, disabled=True),
            html.Div(
                [
                    html.Button(f"Run {NUM_EPISODES} fresh episodes", id="forecast-button"),
                    download_link(),
                ],
                id="deploy",
                className="buttons",
                hidden=True,
            ),
            html.Div(id="forecast", **SPOKEN),
            html.Div(id="exchange"),
        ],
    )


# --- what follows ------------------------------------------------------------------------------------------


def refused(fault: Exception) -> tuple[Any, ...]:
    """Say what cannot be read; everything else stays."""
    return (alert(str(fault)), *[no_update] * NUM_OUTPUTS)


def remaining_words(advice: Advice) -> list[Component]:
    """How many are left, or what to give up."""
    words = html.P(html.Strong(describe_remaining(advice)), id="count")
    return [words] if advice.chosen is not None else [words, alert(advice.reason)]


def question_words(advice: Advice, question: Question | None, stopped: bool) -> str:
    """Where the questions stand."""
    answered = f"after {count_of(advice.num_answers, 'answer')}"
    if question is not None:
        return f"Question {advice.num_answers + 1} of at most {MAX_QUESTIONS}: which would you rather have?"
    if stopped:
        return f"You stopped {answered}."
    if advice.num_answers >= MAX_QUESTIONS:
        return f"That is enough: {answered}, the short list below is for you to choose from."
    return f"Nothing more is worth asking, {answered}."


def outcome_panel(advice: Advice, question: Question | None, side: int) -> list[Component]:
    """What one of two policies returns, and what it has and gives up against the other."""
    if question is None:
        return []
    outcomes, here, other = advice.outcomes, question[side], question[1 - side]
    return [
        returns_table(outcomes, here),
        quiet(f"against {SIDES[1 - side]}: {compare(outcomes, here, other)}"),
    ]


def returns_table(outcomes: Outcomes, place: int) -> Component:
    rows = [
        html.Tr([html.Th(name, scope="row"), html.Td(in_short(value), className="number")])
        for name, value in zip(outcomes.objectives, outcomes.returns[place], strict=True)
    ]
    return html.Table(html.Tbody(rows))


def because(advice: Advice) -> list[Component]:
    """Why the first of the short list is the first."""
    if advice.chosen is None:
        return [quiet("There is nobody left to list.")]
    words = f"The first {advice.reason}."
    if advice.num_answers:
        words += f" It is expected to lack {advice.regret:.1%} of what the front spans in what you want."
    return [quiet(words)]


def shortlist_options(advice: Advice) -> list[dict[str, Any]]:
    """Each of the short list with what it gives up against the others, as something to pick."""
    rows = [int(advice.outcomes.rows[place]) for place in advice.shortlist]
    return [{"label": listed_words(advice, number), "value": row} for number, row in enumerate(rows)]


def listed_words(advice: Advice, number: int) -> str:
    """One of the short list: what it returns, and what it has and gives up against each of the others."""
    outcomes, place = advice.outcomes, advice.shortlist[number]
    returned = describe_outcome(outcomes.returns[place], outcomes.objectives)
    against = [
        f"against {other + 1}: {compare(outcomes, place, advice.shortlist[other])}"
        for other in range(len(advice.shortlist))
        if other != number
    ]
    return "\n".join([f"{number + 1}. Row {outcomes.rows[place]}", returned, *against])


def exchange_panel(outcomes: Outcomes, row: int) -> list[Component]:
    """What a little more of each objective costs, next to a row."""
    here = outcomes.index_of(row)
    near = find_neighbours(outcomes.returns, outcomes.returns[here])
    words = [rate for one in near for rate in describe_rates(outcomes, here, one)]
    save = html.P(["In a terminal: ", html.Code(f"ucb-moppo choose RUN --row {row} --out policy.safetensors")])
    if not words:
        return [quiet("Nothing on the front trades noticeably more of one objective for another."), save]
    rates = html.Ul([html.Li(rate) for rate in words], className="neighbours", id="rates")
    return [quiet("Next to it on the front:"), rates, save]


def question_video(progress: VideoProgress, row: int) -> list[Component]:
    """The video of one of two policies, or how far it is."""
    if progress.state == "failed":
        return [alert(f"No video: {progress.error}")]
    if progress.video is None:
        return [rendering_bar(progress.share), quiet(f"the video is on its way, {progress.share:.0%}")]
    return [video_player(row, progress.video.name)]


# --- what it will do ---------------------------------------------------------------------------------------


def forecast_state(progress: ForecastProgress) -> list[Component]:
    """What there is to say before there is a forecast."""
    if progress.state == "failed":
        return [alert(f"No forecast: {progress.error}")]
    if progress.state == "running":
        return [
            quiet(f"{NUM_EPISODES} episodes are running …"),
            html.Progress(**aria_label("episodes are running")),
        ]
    return [
        quiet("Fresh episodes start where nothing was chosen or measured before: what they show is what you get.")
    ]


def forecast_panel(forecast: Forecast, bounds: Bounds) -> list[Component]:
    """Quantiles, the worst of them, how often bounds hold, and early ends."""
    heads = ("objective", "worst 5%", "5%", "25%", "median", "75%", "95%", "mean")
    rows = [
        html.Tr(
            [
                html.Th(name, scope="row"),
                *(
                    html.Td(in_short(value), className="number")
                    for value in (forecast.worst[j], *forecast.quantiles[:, j], forecast.mean[j])
                ),
            ]
        )
        for j, name in enumerate(forecast.objectives)
    ]
    header = html.Tr([html.Th(head, scope="col", className="number" if i else "") for i, head in enumerate(heads)])
    return [
        html.Table([html.Caption(f"{forecast.episodes} fresh episodes"), html.Thead(header), html.Tbody(rows)]),
        html.Ul(
            [html.Li(words) for words in describe_chances(forecast, bounds)], className="neighbours", id="chances"
        ),
    ]


# --- the plot ----------------------------------------------------------------------------------------------


def front_figure(advice: Advice, question: Question | None) -> go.Figure:
    """The front with what remains of it, the short list, and who is asked about."""
    outcomes = advice.outcomes
    layers = make_layers(advice)
    if len(outcomes.objectives) > 3:
        limits = np.stack([outcomes.worst, outcomes.best])
        return figures.parallel_figure(outcomes.objectives, layers, limits)
    figure = figures.projection_figure(outcomes.objectives, layers)
    draw_bounds(figure, advice)
    name_sides(figure, advice, question)
    return figure


def make_layers(advice: Advice) -> list[figures.Layer]:
    left = np.zeros(len(advice.outcomes), bool)
    left[advice.remaining] = True
    ring = {"size": 16, "color": figures.NEIGHBOUR_COLOUR, "symbol": "circle-open", "line": {"width": 2}}
    star = {"size": 15, "color": figures.CHOSEN_COLOUR, "symbol": "star"}
    layers = [
        make_layer("excluded", advice, np.flatnonzero(~left), {"size": 7, "color": EXCLUDED_COLOUR}),
        make_layer("remaining", advice, advice.remaining, {"size": 9, "color": figures.FRONT_COLOUR}),
        make_layer("short list", advice, np.array(advice.shortlist, int), ring),
        make_layer("chosen", advice, np.array(advice.shortlist[:1], int), star),
    ]
    return [layer for layer in layers if len(layer["points"])]


def make_layer(name: str, advice: Advice, places: Any, marker: dict[str, Any]) -> figures.Layer:
    text = [f"row {advice.outcomes.rows[place]}" for place in places]
    return {"name": name, "points": advice.outcomes.returns[places], "text": text, "marker": marker}


def draw_bounds(figure: go.Figure, advice: Advice) -> None:
    """Dashed lines where bounds are."""
    line = {"line_dash": "dash", "line_color": "#555", "line_width": 1.5}
    for column, (i, j) in enumerate(figures.pairs(len(advice.outcomes.objectives)), start=1):
        for objective, _, value in advice.bounds.given():
            if objective == i:
                figure.add_vline(x=value, row=1, col=column, **line)
            if objective == j:
                figure.add_hline(y=value, row=1, col=column, **line)


def name_sides(figure: go.Figure, advice: Advice, question: Question | None) -> None:
    """A and B beside the points that are asked about."""
    for side, place in zip(SIDES, question or (), strict=False):
        for column, (i, j) in enumerate(figures.pairs(len(advice.outcomes.objectives)), start=1):
            x, y = advice.outcomes.returns[place][[i, j]]
            look = {"bgcolor": ASKED_COLOUR, "font": {"color": "#000", "size": 14}, "ax": 18, "ay": -22}
            figure.add_annotation(x=x, y=y, text=f"<b>{side}</b>", row=1, col=column, arrowhead=2, **look)
