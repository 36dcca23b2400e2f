"""Reading costs a small multiple of what is there: sizes that files only name take no memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sample_runs import SampleRun, random_tensors, rewrite

from ucb_moppo.errors import RunFormatError
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import ActionSpec, EnvSpec, ObservationPart
from ucb_moppo.store.front import front_from_columns
from ucb_moppo.store.layout import MANIFEST
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import parse_columns

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in another way here")

READ = """
import resource, sys
import numpy as np
from ucb_moppo.errors import RunFormatError
from ucb_moppo.report.load import load_data

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

before = peak()
try:
    load_data(sys.argv[1])
except RunFormatError as fault:
    print(str(fault)[:60], file=sys.stderr)
print(peak() - before)
"""


def megabytes_to_read(run: Path) -> int:
    """What reading everything of a run takes, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", READ, str(run)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return SampleRun().write(tmp_path / "run")


def test_many_digests_are_refused(run: Path) -> None:
    line = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)[0]
    rewrite(run, "metrics.jsonl", line * (8 * 2**20 // len(line)))
    manifest = json.loads((run / MANIFEST).read_text())
    known = manifest["files"]["metrics.jsonl"]
    manifest["files"]["metrics.jsonl"] = [known[0] | {"sha256": "0" * 64}] * 300 + known
    (run / MANIFEST).write_text(json.dumps(manifest))
    assert megabytes_to_read(run) < 30
    with pytest.raises(RunFormatError, match=r"does not hold a digest of metrics\.jsonl"):
        Run(run).metrics()


def test_policies_that_are_only_named_take_no_memory(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    rewrite(run, "summary.json", json.dumps(summary | {"policies": 30_000_000}).encode())
    assert megabytes_to_read(run) < 30


def test_a_large_table_takes_a_few_times_its_size(run: Path) -> None:
    header = b"policy,weight_1,weight_2,return_1,return_2,on_front\n"
    table = header + b"0,1,0,1,1,true\n" * (10 * 2**20 // 15)
    rewrite(run, "front.csv", table)
    summary = json.loads((run / "summary.json").read_text())
    rewrite(run, "summary.json", json.dumps(summary | {"policies": 1}).encode())
    assert megabytes_to_read(run) < 160


@pytest.mark.parametrize("cell", [b"a,", b'"",', b"\n", b",\n"])
def test_a_table_of_nothing_takes_no_memory_either(run: Path, cell: bytes) -> None:
    rewrite(run, "front.csv", b"policy" + cell * (10 * 2**20 // len(cell)))
    assert megabytes_to_read(run) < 60


def test_a_table_by_hand(tmp_path: Path) -> None:
    table = parse_columns(b"policy,on_front\n3,true\n\n-1,false\r\n", tmp_path)
    assert {name: column.tolist() for name, column in table.items()} == {"policy": [3, -1], "on_front": [1, 0]}
    assert parse_columns(b"", tmp_path) == {}


@pytest.mark.parametrize("weight", [b"nan", b"inf", b"1e999"])
def test_weights_that_are_not_finite_are_refused(run: Path, weight: bytes) -> None:
    table = b"policy,weight_1,weight_2,return_1,return_2,on_front\n0,%s,0,1,nan,true\n" % weight
    with pytest.raises(RunFormatError, match=r"front\.csv has weights that are not finite"):
        front_from_columns(parse_columns(table, run / "front.csv"), run / "front.csv")


def test_returns_may_be_undefined(run: Path) -> None:
    table = b"policy,weight_1,weight_2,return_1,return_2\n0,1,0,1,nan\n"
    assert np.isnan(front_from_columns(parse_columns(table, run), run).returns[0, 1])


# --- acting ------------------------------------------------------------------------------------------------


def test_one_of_many_discrete_observations_costs_a_row() -> None:
    """A square of 60,000 would take 13 GiB."""
    size = 60_000
    spec = EnvSpec("big", ("a", "b"), size, ActionSpec(True, 2, (), ()), 10, (0.0, 0.0), discrete_observation=True)
    tensors = {name: array[0] for name, array in random_tensors(spec, 1).items()}
    policy = Policy(spec, 0, np.array([0.5, 0.5]), np.zeros(2), tensors)
    assert policy(59_999) in (0, 1)
    part = ObservationPart((), (), (3,), (0,))
    assert part.encode(np.array([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("number", [-1, 3, np.nan])
def test_an_observation_that_is_not_one_of_them_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="outside its space"):
        ObservationPart((), (), (3,), (0,)).encode(np.array([number]))
