"""The viewer, served for a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ucb_moppo.viewer.serve import make_server
from ucb_moppo.viewer.sources import open_sources


@contextmanager
def served(run: Path, compare: Path | None = None) -> Iterator[str]:
    """The viewer's address while it is served."""
    server = make_server(open_sources(run, compare), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
