"""Which processes belong together."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and all that descend from it, as /proc tells."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found
