"""The viewer as a web application: what happens when something on the page moves, and what it may be asked for."""

from __future__ import annotations

import hmac
import io
import ipaddress
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import flask
import numpy as np
from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.objectives.weights import check_weights
from ucb_moppo.report.runs import RunData
from ucb_moppo.report.slug import slug
from ucb_moppo.store.run import Run
from ucb_moppo.viewer import figures, page_layout
from ucb_moppo.viewer.choice import Choice, choice_at, choose, find_neighbours
from ucb_moppo.viewer.chooser import make_chooser
from ucb_moppo.viewer.renderer import Renderer
from ucb_moppo.viewer.sources import MAIN, OTHER, Source
from ucb_moppo.viewer.video import find_video, read_video

# Nothing on the page comes from elsewhere, and the browser is told to see to it.
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
COOKIE = "ucb_moppo_token"
ASK = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Token · ucb-moppo</title></head><body>
<form method="get"><label>This page asks for the token that `ucb-moppo view` has printed:
<input name="token" type="password" autofocus></label> <button>Show the run</button></form></body></html>"""
INDEX = """<!doctype html>
<html lang="en"><head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}</head>
<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body></html>"""


def make_app(sources: Mapping[str, Source], renderer: Renderer, host: str = "127.0.0.1", token: str = "") -> Dash:
    """The application that shows the runs ``sources``, served on ``host`` to those who know the ``token``."""
    app = Dash(
        "ucb_moppo.viewer",
        assets_folder=str(Path(__file__).with_name("assets")),
        serve_locally=True,
        suppress_callback_exceptions=True,
        index_string=INDEX,
        title=f"{sources[MAIN].path.resolve().name} · ucb-moppo",
        update_title="",
    )
    app.layout = lambda: page_layout.make_layout(sources[MAIN].read(), other_data(sources), stamp_of(sources))
    guard(app.server, host)
    if token:
        ask_for_token(app.server, token)
    add_downloads(app.server, sources)
    follow_run(app, sources)
    follow_preference(app, sources)
    follow_stage(app, sources)
    follow_video(app, sources, renderer)
    make_chooser(app.server, sources, renderer, INDEX, app.title)
    return app


# --- what may be asked for ---------------------------------------------------------------------------------


def guard(server: flask.Flask, host: str) -> None:
    """Refuse requests that were meant for another host, and tell browsers to load nothing from elsewhere."""

    @server.before_request
    def check_host() -> None:
        if not is_own_host(flask.request.host, host):
            flask.abort(403, f"this page is not served under the name {flask.request.host!r}")
        origin = flask.request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != flask.request.host:
            flask.abort(403, "requests from other pages are refused")

    @server.after_request
    def add_headers(response: flask.Response) -> flask.Response:
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


def ask_for_token(server: flask.Flask, token: str) -> None:
    """Answer only to those who know the token: from the address, or from the cookie that it is exchanged for."""

    @server.before_request
    def check_token() -> flask.Response | None:
        if is_token(flask.request.cookies.get(COOKIE, ""), token):
            return None
        if not is_token(flask.request.args.get("token", ""), token):
            return flask.Response(ASK, status=401, mimetype="text/html")
        others = flask.request.args.to_dict(flat=False)
        del others["token"]  # it is not to stay in the address
        query = f"?{urlencode(others, doseq=True)}" if others else ""
        answer = flask.redirect(f"{flask.request.path}{query}")
        answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
        return flask.make_response(answer)


def is_token(given: str, token: str) -> bool:
    """Whether what was given is the token; takes as long for any that is not."""
    return hmac.compare_digest(given.encode(), token.encode())


def is_own_host(asked: str, host: str) -> bool:
    """Whether a Host header names this server.

    A foreign name that resolves to this machine (DNS rebinding) would let any web page read the run. Where the
    server is told to serve a network, it goes by numbers there, which nobody can rebind, or by its own name.
    """
    name = asked.rsplit(":", 1)[0] if asked.rpartition(":")[2].isdigit() else asked
    name = name.strip("[]").lower()
    if name in ("127.0.0.1", "localhost", "::1", host.lower()):
        return True
    try:
        return not is_local(host) and bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def add_downloads(server: flask.Flask, sources: Mapping[str, Source]) -> None:
    """Policies and videos by the id of a run and the number of a row, both looked up."""

    @server.get("/policy/<source>/<int:row>")
    def send_policy(source: str, row: int) -> flask.Response:
        run = _find(sources, source)
        try:
            policy = Run(run.path).evaluated_policy(row)
        except ConfigError as fault:
            flask.abort(404, str(fault))
        except RunFormatError as fault:
            flask.abort(409, str(fault))
        with tempfile.TemporaryDirectory() as place:
            data = policy.save(Path(place) / "policy.safetensors").read_bytes()
        name = f"{slug(run.path.resolve().name)}-policy{policy.index}-row{row}.safetensors"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return flask.Response(data, mimetype="application/octet-stream", headers=headers)

    @server.get("/video/<source>/<int:row>")
    def send_video(source: str, row: int) -> flask.Response:
        path = _find(sources, source).path
        try:
            run = Run(path)
            video = find_video(run, row)
            data = None if video is None else read_video(run, video)
        except RunFormatError as fault:
            flask.abort(409, str(fault))
        if data is None:
            return flask.abort(404, "this video has not been rendered")
        return flask.send_file(io.BytesIO(data), mimetype="video/mp4", conditional=True)


def _find(sources: Mapping[str, Source], name: str) -> Source:
    if name not in sources:
        flask.abort(404, f"no run {name!r} here")
    return sources[name]


# --- what moves --------------------------------------------------------------------------------------------


def stamp_of(sources: Mapping[str, Source]) -> str:
    """Changes when any of the runs' files do."""
    return "|".join(source.stamp() for source in sources.values())


def newest_data(sources: Mapping[str, Source]) -> RunData:
    """The run's data; nothing on the page moves while there is none."""
    data = sources[MAIN].read().data
    if data is None:
        raise PreventUpdate
    return data


def compared_choice(sources: Mapping[str, Source], preference: Any) -> tuple[RunData, Choice] | None:
    """The other run and what it has for a preference; None while it cannot be read."""
    data = other_data(sources)
    return None if data is None else (data, choose(data, preference))


def other_data(sources: Mapping[str, Source]) -> RunData | None:
    return sources[OTHER].read().data if OTHER in sources else None


def follow_run(app: Dash, sources: Mapping[str, Source]) -> None:
    """Look every now and then whether the runs' files have changed."""

    @app.callback(
        Output("stamp", "data"),
        Output("page", "children"),
        Input("clock", "n_intervals"),
        State("stamp", "data"),
        State({"type": "share", "index": ALL}, "value"),
    )
    def look(ticks: int, stamp: str, shares: list[float]) -> tuple[Any, Any]:
        found = stamp_of(sources)
        reading = sources[MAIN].read()
        had_data = bool(shares)
        if had_data != (reading.data is not None):
            return found, page_layout.page(reading, other_data(sources))
        return (no_update if found == stamp else found), no_update

    @app.callback(Output("status", "children"), Input("stamp", "data"))
    def say_status(stamp: str) -> str:
        return page_layout.status_text(newest_data(sources), other_data(sources))


def follow_preference(app: Dash, sources: Mapping[str, Source]) -> None:
    """Sliders stay on the simplex (in the browser, so that they do not lag); then the page shows what it picks."""
    app.clientside_callback(
        ClientsideFunction("viewer", "balance"),
        Output({"type": "share", "index": ALL}, "value"),
        Output("preference", "data"),
        Input({"type": "share", "index": ALL}, "value"),
        State("preference", "data"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("front", "figure"),
        Output("picked", "children"),
        Output({"type": "share-shown", "index": ALL}, "children"),
        Output("chosen", "data"),
        Output("download", "href"),
        Input("preference", "data"),
        Input("stamp", "data"),
        Input("view", "value"),
    )
    def show_choice(shares: list[float], stamp: str, view: str) -> tuple[Any, ...]:
        data = newest_data(sources)
        preference = to_preference(shares, len(data.objectives))
        chosen, other = choose(data, preference), compared_choice(sources, preference)
        near = find_neighbours(data, chosen)
        figure = figures.front_figure(data, chosen, [n.choice for n in near], other, view)
        return (
            figure,
            page_layout.picked_panel(data, preference, chosen, near, other),
            [f"{share:.1%}" for share in preference],
            chosen.row,
            f"/policy/{MAIN}/{chosen.row}",
        )


def to_preference(shares: Any, num_objectives: int) -> Any:
    """What the page sent, as a weight [m]; anything else changes nothing."""
    try:
        numbers = np.clip(np.asarray(shares, float), 0, 1)
        return check_weights(numbers / numbers.sum(), num_objectives)
    except (TypeError, ValueError):
        raise PreventUpdate from None


def follow_stage(app: Dash, sources: Mapping[str, Source]) -> None:
    """The scrubber through training."""

    @app.callback(
        Output("history", "figure"),
        Output("curve", "figure"),
        Output("stage-shown", "children"),
        Output("stage", "max"),
        Input("stage", "value"),
        Input("stamp", "data"),
    )
    def show_stage(stage: Any, stamp: str) -> tuple[Any, ...]:
        data = newest_data(sources)
        last = len(data.metrics) - 1
        index = min(last, max(0, int(float(stage if stage is not None else last))))
        line = data.metrics[index]
        words = f"stage {line['stage']} of {data.stages[-1]}, {line['training_steps']:,} steps"
        return figures.history_figure(data, index), figures.curve_figure(data, index), words, last


def follow_video(app: Dash, sources: Mapping[str, Source], renderer: Renderer) -> None:
    """Render when asked, show how far it is, then play."""

    @app.callback(
        Output("video", "children"),
        Output("video-shown", "data"),
        Output("video-clock", "disabled"),
        Output("video-button", "disabled"),
        Input("video-button", "n_clicks"),
        Input("video-clock", "n_intervals"),
        Input("chosen", "data"),
        State("video-shown", "data"),
    )
    def show_video(clicks: int, ticks: int, row: Any, shown: str | None) -> tuple[Any, ...]:
        data = newest_data(sources)
        if not isinstance(row, int) or not 0 <= row < len(data.evaluated.policy):
            raise PreventUpdate
        path = sources[MAIN].path
        if ctx.triggered_id == "video-button":
            renderer.request(path, row)
        progress = renderer.progress(path, row)
        version = progress.video.name if progress.video else ""
        busy = progress.state in ("waiting", "rendering")
        state = f"{row}/{version}/{progress.state}/{progress.share:.2f}"
        children = (
            page_layout.video_panel(progress, data, choice_at(data, row), version) if state != shown else no_update
        )
        return children, state, not busy, busy or progress.state == "done"
