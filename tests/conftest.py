"""The order of the tests: those that wait longest come first, so that two processes end at about the same time."""

from __future__ import annotations

import pytest

FIRST = ("test_ray.py", "test_interruptions.py")
"""Clusters that start and runs that are killed: minutes each, of which the processor sees little."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))
