"""A served page and a real browser for it; both are skipped where they cannot be had, with the reason."""

from __future__ import annotations

import os
import shutil

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 120_000  # a busy machine is no failure


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Debian's Chromium without a window, with a new profile."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install 'ucb-moppo[browser-tests]'"
    )
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or name one with CHROMIUM=/path")
    with api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=program,
            headless=True,
            args=FLAGS,
            accept_downloads=True,
            viewport={"width": 1360, "height": 1200},
        )
        context.set_default_timeout(PATIENCE_MS)
        yield context
        context.close()


@pytest.fixture
def page(browser):
    """A page that fails its test on any script error and on any request that leaves this machine."""
    page, faults = browser.new_page(), []
    page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
    page.on(
        "request",
        lambda request: (
            request.url.startswith(("http://127.0.0.1", "data:", "blob:")) or faults.append(request.url)
        ),
    )
    yield page
    page.close()
    assert faults == []
