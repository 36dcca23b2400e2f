"""What the site holds beside docs/: the repository's own pages and its examples, with links that fit their places.

MkDocs calls the two functions whose names begin with ``on_``. Every page keeps the links that a reader of the
repository follows; here they are turned into those of the site, and what it does not hold is named by its path.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/wireless/README.md": "examples/wireless.md",
}
"""Pages of the repository by their place in it, and where the site has them."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#:]+)(#[^)]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Code that a search would show whole, before every page that explains something."""


def examples() -> dict[str, str]:
    """The examples by their place in the repository, and the page of each."""
    found = [path for path in sorted((ROOT / "examples").iterdir()) if path.suffix in (".py", ".ipynb")]
    return {f"examples/{path.name}": f"examples/{path.stem}.md" for path in found}


def pictures() -> dict[str, str]:
    """The pictures of an example, which keep their places."""
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").glob("*/*.png"))]
    return dict(zip(found, found, strict=True))


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside docs/, and their pictures."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    for source, place in examples().items():
        text = (ROOT / source).read_text(encoding="utf-8")
        page = notebook_page(source, text) if source.endswith(".ipynb") else script_page(source, text)
        files.append(File.generated(config, place, content=page))
    for source, place in pictures().items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn the links of a page into those of the site, outside its code."""
    place = page.file.src_uri
    sources = {site: source for source, site in (PAGES | examples()).items()}
    source = sources.get(place, f"docs/{place}")
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else move_links(part, source, place) for part in parts)


def move_links(text: str, source: str, place: str) -> str:
    """Links of a page that lies at ``source`` in the repository and at ``place`` in the site."""

    def move(link: re.Match[str]) -> str:
        mark, words, target, anchor = link[1], link[2], link[3], link[4] or ""
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        moved = place_in_site(found)
        if moved is None:
            return f"{words} (`{found}` in the repository)"
        return f"{mark}[{words}]({posixpath.relpath(moved, posixpath.dirname(place) or '.')}{anchor})"

    return LINK.sub(move, text)


def place_in_site(path: str) -> str | None:
    """Where the site has a file of the repository; None where it has not."""
    outside = PAGES | examples() | pictures()
    if path in outside:
        return outside[path]
    inside = path.startswith("docs/") and os.path.isfile(ROOT / path) and not path.endswith(".py")
    return path.removeprefix("docs/") if inside else None


def script_page(source: str, text: str) -> str:
    """A script as a page."""
    return f"{UNSEARCHED}# {Path(source).name}\n\n`{source}`\n\n```python\n{text.rstrip()}\n```\n"


def notebook_page(source: str, text: str) -> str:
    """A notebook as a page: its words as they are, its cells as code."""
    parts = []
    for cell in json.loads(text)["cells"]:
        words = "".join(cell["source"])
        parts.append(words if cell["cell_type"] == "markdown" else f"```python\n{words}\n```")
    first, *others = parts
    return UNSEARCHED + "\n\n".join([first, f"`{source}`", *others]) + "\n"
