"""A front is a table: as long as it has points, and made of its columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sample_runs import SampleRun

from ucb_moppo.store.front import Front
from ucb_moppo.store.run import Run


@pytest.fixture
def front() -> Front:
    """Four points of two policies and two objectives."""
    returns = np.array([[1.0, 9.0], [4.0, 4.0], [5.0, 3.0], [9.0, 1.0]])
    return Front(np.array([0, 0, 1, 1]), returns / 10, returns)


def test_its_length_is_its_number_of_points(front: Front) -> None:
    assert len(front) == 4
    assert not Front(np.zeros(0, int), np.zeros((0, 2)), np.zeros((0, 2)))


def test_it_is_taken_apart_into_its_columns(front: Front) -> None:
    policy, weights, returns = front
    assert policy is front.policy
    assert weights is front.weights
    assert returns is front.returns


@pytest.mark.parametrize("rows", [[0, 3], [True, False, False, True]])
def test_some_of_its_points_are_a_front_of_their_own(front: Front, rows: list[int]) -> None:
    ends = front.take(np.array(rows))
    assert len(ends) == 2
    assert ends.policy.tolist() == [0, 1]
    assert ends.weights.tolist() == [[0.1, 0.9], [0.9, 0.1]]
    assert ends.returns.tolist() == [[1, 9], [9, 1]]


def test_a_run_has_as_many_points_as_are_not_dominated(tmp_path: Path) -> None:
    run = Run(
        SampleRun.showing(np.array([[[1.0, 9.0], [4.0, 4.0], [9.0, 1.0], [3.0, 3.0]]])).write(tmp_path / "run")
    )
    assert (len(run.front()), len(run.evaluated())) == (3, 4)
