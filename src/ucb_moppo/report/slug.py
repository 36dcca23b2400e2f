"""How a title becomes a file name."""

from __future__ import annotations

import re


def slug(text: str) -> str:
    """A file name of a title."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")
