"""The page "Which policy do I deploy?", an application beside the viewer's: what happens when something is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from ucb_moppo.decide.advice import Advice, Wishes, advise
from ucb_moppo.decide.forecast import make_forecast
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.preferences import SAID, Answer
from ucb_moppo.errors import ConfigError
from ucb_moppo.store.decision import read_outcomes
from ucb_moppo.viewer import chooser_layout as layout
from ucb_moppo.viewer.forecaster import Forecaster
from ucb_moppo.viewer.renderer import Renderer
from ucb_moppo.viewer.sources import MAIN, Source

PATH = "/choose/"


class Said(NamedTuple):
    """Everything on the page that somebody can have said."""

    floors: Sequence[Any]
    ceilings: Sequence[Any]
    rule: Any
    aspirations: Sequence[Any]
    most: Any
    answers: Any


def make_chooser(server: Any, sources: Mapping[str, Source], renderer: Renderer, index: str, title: str) -> Dash:
    """The page of the run among ``sources``, on the viewer's own ``server``, a Flask, and under its guard."""
    app = Dash(
        "ucb_moppo.viewer.chooser",
        server=server,
        url_base_pathname=PATH,
        assets_folder=str(Path(__file__).with_name("assets")),
        serve_locally=True,
        suppress_callback_exceptions=True,
        index_string=index,
        title=title,
        update_title="",
    )
    source = sources[MAIN]
    app.layout = lambda: layout.make_layout(source.read(), source.stamp())
    follow_run(app, source)
    follow_answers(app)
    follow_wishes(app, source)
    follow_question_videos(app, source, renderer)
    follow_forecast(app, source, Forecaster())
    return app


# --- what was said -----------------------------------------------------------------------------------------


def newest_outcomes(source: Source) -> Outcomes:
    """The run's front; nothing on the page moves while there is none."""
    data = source.read().data
    if data is None:
        raise PreventUpdate
    return read_outcomes(data.run)


def to_wishes(said: Said, outcomes: Outcomes) -> Wishes:
    """What the page sent as wishes; a ConfigError says what cannot be read."""
    names = outcomes.objectives
    asked: dict[str, Any] = {"aspirations": {}, "knee": said.rule == "knee", "most": ""}
    if said.rule == "aspirations":
        asked["aspirations"] = to_amounts(said.aspirations, names, "aspire")
        asked["knee"] = not asked["aspirations"]
    if said.rule == "most" and said.most in range(len(names)):
        asked["most"] = names[said.most]
    return Wishes(
        floors=to_amounts(said.floors, names, "at least"),
        ceilings=to_amounts(said.ceilings, names, "at most"),
        answers=tuple(to_answers(said.answers, outcomes)) if said.rule == "questions" else (),
        **asked,
    )


def to_amounts(values: Sequence[Any], names: Sequence[str], what: str) -> dict[str, float]:
    """Numbers by objective, of fields that may be empty; thousands may stand apart."""
    found: dict[str, float] = {}
    for name, value in zip(names, values, strict=True):
        text = str(value if value is not None else "").replace(",", "").strip()
        try:
            found |= {name: float(text)} if text else {}
        except ValueError:
            raise ConfigError(f"{name}, {what}: {text!r} is no number") from None
    return found


def to_answers(answers: Any, outcomes: Outcomes) -> list[Answer]:
    """The answers about policies that are still on the front: a run that trains on has others."""
    known = set(outcomes.rows.tolist())
    try:
        told = [Answer(first, second, said) for first, second, said in answers or []]
    except (TypeError, ValueError):
        raise PreventUpdate from None
    return [a for a in told if a.said in SAID and {a.first, a.second} <= known]


# --- what moves --------------------------------------------------------------------------------------------


def follow_run(app: Dash, source: Source) -> None:
    """Look every now and then whether the run's files have changed."""

    @app.callback(
        Output("stamp", "data"),
        Output("page", "children"),
        Input("clock", "n_intervals"),
        State("stamp", "data"),
        State({"type": "floor", "index": ALL}, "value"),
    )
    def look(ticks: int, stamp: str, floors: list[Any]) -> tuple[Any, Any]:
        reading, found = source.read(), source.stamp()
        if bool(floors) != (reading.data is not None):
            return found, layout.page(reading)
        return (no_update if found == stamp else found), no_update


def follow_answers(app: Dash) -> None:
    """The buttons below a question."""

    @app.callback(
        Output("answers", "data"),
        Output("stopped", "data"),
        Input("say-first", "n_clicks"),
        Input("say-second", "n_clicks"),
        Input("say-same", "n_clicks"),
        Input("undo", "n_clicks"),
        Input("stop", "n_clicks"),
        State("answers", "data"),
        State("question", "data"),
        State("stopped", "data"),
        prevent_initial_call=True,
    )
    def note(*arguments: Any) -> tuple[Any, Any]:
        answers, question, stopped = list(arguments[-3] or []), arguments[-2], arguments[-1]
        pressed = str(ctx.triggered_id)
        if not ctx.triggered or not ctx.triggered[0]["value"]:
            raise PreventUpdate
        if pressed == "stop":
            return no_update, not stopped
        if pressed == "undo":
            return answers[:-1], False
        if not question:
            raise PreventUpdate
        return [*answers, [*question, pressed.removeprefix("say-")]], False


def follow_wishes(app: Dash, source: Source) -> None:
    """How many remain as you type, the front, the next question, and the short list."""

    @app.callback(
        Output("remaining", "children"),
        Output("front", "figure"),
        Output("question", "data"),
        Output("question-words", "children"),
        Output("outcome-first", "children"),
        Output("outcome-second", "children"),
        Output("question-card", "hidden"),
        Output("question-videos", "hidden"),
        *(Output(name, "disabled") for name in ("say-first", "say-second", "say-same", "undo", "stop")),
        Output("stop", "children"),
        Output("aspirations", "hidden"),
        Output("most-of", "hidden"),
        Output("shortlist", "options"),
        Output("shortlist", "value"),
        Output("because", "children"),
        Input({"type": "floor", "index": ALL}, "value"),
        Input({"type": "ceiling", "index": ALL}, "value"),
        Input("rule", "value"),
        Input({"type": "aspiration", "index": ALL}, "value"),
        Input("most", "value"),
        Input("answers", "data"),
        Input("stopped", "data"),
        Input("stamp", "data"),
        State("shortlist", "value"),
    )
    def show(*arguments: Any) -> tuple[Any, ...]:
        said, (stopped, _, taken) = Said(*arguments[:6]), arguments[6:]
        outcomes = newest_outcomes(source)
        try:
            wishes = to_wishes(said, outcomes)
            advice = advise(outcomes, wishes)
        except ConfigError as fault:
            return layout.refused(fault)
        asking = said.rule == "questions"
        question = advice.question() if asking and not stopped else None
        return (
            layout.remaining_words(advice),
            layout.front_figure(advice, question),
            None if question is None else [int(outcomes.rows[i]) for i in question],
            layout.question_words(advice, question, bool(stopped)),
            layout.outcome_panel(advice, question, 0),
            layout.outcome_panel(advice, question, 1),
            not asking,
            question is None,
            *[question is None] * 3,
            not wishes.answers,
            question is None and not stopped,
            "Go on asking" if stopped else "Stop here",
            said.rule != "aspirations",
            said.rule != "most",
            layout.shortlist_options(advice),
            still_taken(advice, taken),
            layout.because(advice),
        )


def still_taken(advice: Advice, taken: Any) -> Any:
    """Who is taken of the short list: the first of it when it is another list."""
    rows = [int(advice.outcomes.rows[i]) for i in advice.shortlist]
    fresh = ctx.triggered_id not in (None, "stamp")
    return rows[0] if rows and (fresh or taken not in rows) else taken if rows else None


def follow_question_videos(app: Dash, source: Source, renderer: Renderer) -> None:
    """Both policies of a question side by side, rendered when they are asked about."""

    @app.callback(
        Output("video-first", "children"),
        Output("video-second", "children"),
        Output("videos-shown", "data"),
        Output("videos-clock", "disabled"),
        Input("question", "data"),
        Input("with-videos", "value"),
        Input("videos-clock", "n_intervals"),
        State("videos-shown", "data"),
    )
    def show(question: Any, wanted: Any, ticks: int, shown: Any) -> tuple[Any, ...]:
        outcomes = newest_outcomes(source)
        if not question or not wanted or not set(question) <= set(outcomes.rows.tolist()):
            return [], [], None, True
        for row in question:
            renderer.request(source.path, row)
        progresses = [renderer.progress(source.path, row) for row in question]
        states = [f"{row}/{p.state}/{p.share:.2f}" for row, p in zip(question, progresses, strict=True)]
        panels = [
            layout.question_video(progress, row) if state != before else no_update
            for progress, row, state, before in zip(
                progresses, question, states, shown or [None, None], strict=True
            )
        ]
        busy = any(p.state in ("waiting", "rendering") for p in progresses)
        return (*panels, states, not busy)


def follow_forecast(app: Dash, source: Source, forecaster: Forecaster) -> None:
    """What the policy that is taken will do, when asked; and what its neighbours trade."""

    @app.callback(
        Output("forecast", "children"),
        Output("forecast-clock", "disabled"),
        Output("forecast-button", "disabled"),
        Output("exchange", "children"),
        Output("deploy", "hidden"),
        Output("download", "href"),
        Input("shortlist", "value"),
        Input("forecast-button", "n_clicks"),
        Input("forecast-clock", "n_intervals"),
        Input({"type": "floor", "index": ALL}, "value"),
        Input({"type": "ceiling", "index": ALL}, "value"),
    )
    def show(row: Any, clicks: int, ticks: int, floors: list[Any], ceilings: list[Any]) -> tuple[Any, ...]:
        outcomes = newest_outcomes(source)
        if row not in outcomes.rows.tolist():
            return [], True, True, [], True, "#"
        if ctx.triggered_id == "forecast-button":
            forecaster.request(source.path, row)
        progress = forecaster.progress(source.path, row)
        running = progress.state == "running"
        exchange = no_update if ctx.triggered_id == "forecast-clock" else layout.exchange_panel(outcomes, row)
        if progress.episodes is None:
            told = layout.forecast_state(progress)
        else:
            bounds = bounds_of(floors, ceilings, outcomes)
            told = layout.forecast_panel(make_forecast(progress.episodes, outcomes.objectives, bounds), bounds)
        return told, not running, running or progress.state == "done", exchange, False, f"/policy/{MAIN}/{row}"


def bounds_of(floors: Sequence[Any], ceilings: Sequence[Any], outcomes: Outcomes) -> Any:
    """The bounds on the page; those that cannot be read change nothing."""
    try:
        wishes = to_wishes(Said(floors, ceilings, "knee", (), None, ()), outcomes)
        return advise(outcomes, wishes).bounds
    except ConfigError:
        raise PreventUpdate from None
