"""The figures of both campaigns, as far as they have come, as tables for docs/run-format.md, one for each file.

python benchmarks/trust_table.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trust_kills import SIGNALS, summarise

RESULTS = Path("results/trust")


def row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "\n".join([row(head), "|" + "---|" * len(head), *map(row, rows)])


def source(found: dict[str, Any], what: str, done: int) -> str:
    return f"{done:,} {what} (`{found['command']}`, seed {found['seed']}, commit {found['commit'][:9]}):"


def kills_table(found: dict[str, Any]) -> str:
    """By signal: runs that end byte-equal, exit codes, work lost and time to stop, median and most."""
    head = ["signal", "kills before the end", "end byte-equal", "exit codes"]
    head += ["iterations lost", "seconds to stop"]
    rows = [kills_row(number.name, found["kills"]) for number in SIGNALS]
    return f"{source(found, 'kills', len(found['kills']))}\n\n{table(head, rows)}"


def kills_row(name: str, kills: Sequence[dict[str, Any]]) -> list[object]:
    its = [kill for kill in kills if kill["signal"] == name and not kill["ended_before"]]
    figures = summarise(its)[name]
    spreads = [
        f"{figures[f'{what}_median']}, at most {figures[f'{what}_most']}" if f"{what}_most" in figures else "–"
        for what in ("iterations_lost", "seconds_to_stop")
    ]
    codes = ", ".join(map(str, figures["exit_codes"]))
    return [name, len(its), sum(not kill["differs"] for kill in its), codes, *spreads]


def mutations_table(found: dict[str, Any]) -> str:
    """By reader: how many it read and refused; then what must not be, and what reading cost at most."""
    outcomes, readers = found["outcomes"], ("load", "show", "report", "view")
    kinds = ("fine", "refused", "wrong", "hang", "died", "untyped")
    rows = [[reader, *(outcomes.get(f"{reader} {kind}", 0) for kind in kinds)] for reader in readers]
    head = ["reader", "read", "refused", "wrong", "hung", "died", "other errors"]
    costs = f"Files outside that were changed: {found['victims_changed']}. "
    costs += f"A process took at most {found['peak_megabytes']} MiB, and all readers of a directory at most "
    costs += f"{found['most_processor_seconds']} s of processor time."
    return f"{source(found, 'mutated directories', found['done'])}\n\n{table(head, rows)}\n\n{costs}"


def main() -> None:
    for name, make in (("kills", kills_table), ("mutations", mutations_table)):
        for path in sorted(RESULTS.glob(f"{name}*.json")):
            print(make(json.loads(path.read_text())), end="\n\n")


if __name__ == "__main__":
    main()
