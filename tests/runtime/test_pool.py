"""Cells side by side: every one has an outcome, whatever the others do, and none has more threads than cores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pool_work import (
    describe,
    die_once,
    fail_or_die,
    finish_when_stopped,
    save_when_stopped,
    unsendable,
    wait_for,
)

from ucb_moppo.cores import available_cores
from ucb_moppo.errors import ConfigError, WorkerLostError
from ucb_moppo.runtime.pool import Outcome, run_cells


def outcomes(*args: Any, **options: Any) -> dict[Any, Outcome[Any]]:
    return dict(run_cells(*args, **options))


def test_cells_in_this_process_run_in_order_and_a_fault_is_an_outcome() -> None:
    found = list(run_cells(["one", "raise", "two"], fail_or_die, executor="local"))
    assert [cell for cell, _ in found] == ["one", "raise", "two"]
    assert [outcome.value for _, outcome in found] == ["ONE", None, "TWO"]
    with pytest.raises(ValueError, match="cannot be"):
        found[1][1].result()
    assert found[0][1].result() == "ONE"


def test_cells_in_processes_share_the_cores_and_no_more_threads_are_started() -> None:
    cores = available_cores()
    found = outcomes(range(3), describe, slots=2)
    assert sorted(found) == [0, 1, 2]
    values = [found[cell].result() for cell in range(3)]
    assert [value["cell"] for value in values] == [0, 1, 2]
    assert len({value["pid"] for value in values}) == 3  # a fresh process each
    for value in values:
        assert len(value["cores"]) == max(1, len(cores) // 2)
        assert value["NPROC"] == value["OMP_NUM_THREADS"] == str(len(value["cores"]))
    if len(cores) > 1:
        assert not {*values[0]["cores"]} & {*values[1]["cores"]}


@pytest.mark.skipif(len(available_cores()) < 2, reason="there are no cores to leave to others")
def test_cells_that_leave_cores_to_others_run_wherever_it_is_free() -> None:
    """Two sweeps of one core each had both been pinned to the first, with the second idle."""
    value = outcomes(["cell"], describe, cores=1)["cell"].result()
    assert value["allowed"] == available_cores()
    assert (len(value["cores"]), value["NPROC"]) == (1, "1")


def test_a_cell_that_raises_or_whose_process_dies_does_not_end_the_others() -> None:
    found = outcomes(["raise", "die", "good"], fail_or_die)
    assert found["good"].result() == "GOOD"
    assert isinstance(found["raise"].fault, ValueError)
    assert "fail_or_die" in found["raise"].fault.__notes__[0]
    assert isinstance(found["die"].fault, WorkerLostError)
    assert "signal 9" in str(found["die"].fault)


def test_a_cell_whose_process_died_is_begun_again_as_often_as_allowed(tmp_path: Path) -> None:
    assert outcomes([str(tmp_path / "a")], die_once, restarts=1)[str(tmp_path / "a")].result() == "second"


def test_a_result_that_cannot_be_sent_is_a_fault() -> None:
    assert "pickle" in str(outcomes([1], unsendable)[1].fault)


@pytest.mark.parametrize("work", [save_when_stopped, finish_when_stopped])
def test_cells_under_way_are_asked_to_stop_when_the_iterator_is_closed(
    tmp_path: Path, work: Callable[[str], None]
) -> None:
    """One of them ends at once; the other is stopped, and has time to save, or to come to its end."""
    path = tmp_path / "saved"
    with closing(run_cells([str(path), ""], work)) as found:  # type: ignore[type-var]
        assert next(found)[0] == ""
        assert wait_for(path.with_suffix(".begun"))
    assert path.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "prozesses"}, "did you mean processes"),
        ({"cores": -1}, "cores is -1"),
        ({"work": lambda cell: cell}, "cannot be sent to another process"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_cells(**({"cells": [1], "work": describe} | options))
