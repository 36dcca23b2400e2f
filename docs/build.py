"""Build the site and see that it is whole: every page made without a warning, and nothing of it from the network.

python docs/build.py
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parent.parent
LOADED = re.compile(r"<(?:script|link|img|iframe|video|source)\b[^>]*?(?:src|href)=[\"']?(https?:)?//[^>]*>")
"""What a browser fetches by itself from another host; a link is followed by a person alone."""
IMPORTED = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"';]*")


def fetched(page: str, text: str) -> Iterator[str]:
    """Everything in a page or a style sheet that would come from the network."""
    found = LOADED.finditer(text) if page.endswith(".html") else IMPORTED.finditer(text)
    yield from (f"{page} loads {match[0]}" for match in found if 'rel="canonical"' not in match[0])


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    config = load_config(str(ROOT / "mkdocs.yml"), strict=True)
    build(config)
    site = Path(config.site_dir)
    pages = [path for path in sorted(site.rglob("*")) if path.suffix in (".html", ".css")]
    faults = [
        fault for path in pages for fault in fetched(str(path.relative_to(site)), path.read_text(encoding="utf-8"))
    ]
    print("\n".join(faults) if faults else f"{len(pages)} pages: open {site / 'index.html'}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
