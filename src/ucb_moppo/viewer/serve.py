"""Serve the viewer from this machine, and open it."""

from __future__ import annotations

import importlib.util
import secrets
import sys
import threading
import webbrowser
from pathlib import Path

from ucb_moppo.errors import ConfigError, not_installed, require
from ucb_moppo.viewer.sources import MAIN, Source, open_sources

NEEDED = {"dash": "dash", "plotly": "plotly", "imageio_ffmpeg": "imageio-ffmpeg"}
MAX_PORT = 65535


def serve(
    run: Path, compare: Path | None = None, *, host: str, port: int, render: bool, open_browser: bool
) -> None:
    """Show a run until interrupted."""
    # A number beyond the last port is not refused by every system: it means another port.
    require(0 <= port <= MAX_PORT, f"--port is {port}; it must be from 0 (any free one) to {MAX_PORT}")
    check_installed()
    sources = open_sources(run, compare)
    if render:
        render_pickable(sources[MAIN])
    token = make_token(host)
    server = make_server(sources, host, port, token)
    address = f"http://{host if ':' not in host else f'[{host}]'}:{server.server_port}/"
    address += f"?token={token}" if token else ""
    print(f"The viewer is at {address} until you press Ctrl-C.", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def check_installed() -> None:
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise not_installed("the viewer", missing, "viewer")


def make_token(host: str) -> str:
    """A secret for those who may see the page; none where only this machine can."""
    from ucb_moppo.viewer.app import is_local

    return "" if is_local(host) else secrets.token_urlsafe(32)


def make_server(sources, host: str, port: int, token: str = ""):  # type: ignore[no-untyped-def]  # werkzeug is optional
    """A server with a thread per request, which tells nothing but errors."""
    from werkzeug.serving import WSGIRequestHandler
    from werkzeug.serving import make_server as make

    from ucb_moppo.viewer.app import make_app
    from ucb_moppo.viewer.renderer import Renderer

    class Quiet(WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

    app = make_app(sources, Renderer(), host, token)
    try:
        return make(host, port, app.server, threaded=True, request_handler=Quiet)
    except (OSError, OverflowError, SystemExit) as fault:
        raise ConfigError(f"cannot serve on {host}:{port} ({fault}); choose another --port or --host") from None


def render_pickable(source: Source) -> None:
    """The videos of everything a preference can pick."""
    from ucb_moppo.viewer.choice import pickable_rows
    from ucb_moppo.viewer.renderer import render_ahead

    reading = source.read()
    if reading.data is None:
        raise ConfigError(f"there is nothing to render yet: {reading.fault}")
    render_ahead(source.path, pickable_rows(reading.data), lambda text: print(text, file=sys.stderr, flush=True))
