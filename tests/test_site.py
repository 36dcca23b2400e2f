"""The site: where links of the repository lead in it, what its pages may load, and that examples become pages."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("mkdocs", reason="pip install 'ucb-moppo[docs]'")
DOCS = Path(__file__).parents[1] / "docs"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "place", "text", "moved"),
    [
        ("docs/python.md", "python.md", "[x](method.md#stages)", "[x](method.md#stages)"),
        ("README.md", "index.md", "[x](docs/method.md)", "[x](method.md)"),
        ("README.md", "index.md", "![x](docs/scaling.png)", "![x](scaling.png)"),
        ("docs/user-guide.md", "user-guide.md", "[x](../CONTRIBUTING.md#a)", "[x](contributing.md#a)"),
        ("docs/tutorials/a.md", "tutorials/a.md", "[x](../../CHANGELOG.md)", "[x](../changelog.md)"),
        ("docs/python.md", "python.md", "[x](../examples/front.ipynb)", "[x](examples/front.md)"),
        ("README.md", "index.md", "[x](examples/wireless/README.md)", "[x](examples/wireless.md)"),
        ("examples/wireless/README.md", "examples/wireless.md", "![x](front.png)", "![x](wireless/front.png)"),
        ("docs/a.md", "a.md", "[x](../results/first-runs)", "x (`results/first-runs` in the repository)"),
        ("docs/a.md", "a.md", "[x](https://semver.org) and [y](#here)", "[x](https://semver.org) and [y](#here)"),
    ],
)
def test_links_lead_to_the_same_page_in_the_site(source: str, place: str, text: str, moved: str) -> None:
    assert load("site_pages").move_links(text, source, place) == moved


def test_every_example_is_a_page_with_all_of_its_code() -> None:
    pages = load("site_pages")
    for source in pages.examples():
        text = (DOCS.parent / source).read_text(encoding="utf-8")
        make = pages.notebook_page if source.endswith(".ipynb") else pages.script_page
        page = make(source, text)
        assert f"`{source}`" in page
        assert page.count("```") % 2 == 0
        assert "ucb_moppo.train(" in page


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.html", '<script src="https://unpkg.com/x"></script>', 1),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/x.css">', 1),
        ("a.html", '<img alt="x" src="http://example.org/x.png"><video src="//example.org/y.webm">', 2),
        ("a.html", '<a href="https://example.org">words</a> <script src="assets/x.js"></script>', 0),
        ("a.css", '@import "https://example.org/x.css"; b { background: url(//example.org/y.png) }', 2),
        ("a.css", "b { background: url(data:image/png;base64,AAAA) }", 0),
    ],
)
def test_what_comes_from_the_network_is_found(name: str, text: str, count: int) -> None:
    assert len(list(load("build").fetched(name, text))) == count


def test_every_diagram_is_one_picture_that_names_itself() -> None:
    diagrams = load("diagrams")
    assert diagrams.outdated() == []
    for name, drawing in diagrams.DIAGRAMS.items():
        svg = (DOCS / "images" / name).read_text(encoding="utf-8")
        assert re.search(r"<title>\w", svg)
        assert svg == drawing.to_svg()
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
