"""Result files: what a run leaves in one, nothing about the machine, and nothing believed that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_results import assert_names_no_machine
from sample_runs import SampleRun, add_indicator

from ucb_moppo.bench import provenance
from ucb_moppo.bench.result import is_result, make_result, read_result, write_result
from ucb_moppo.errors import DamagedFileError, FormatVersionError, RunFormatError, UnsafeFileError
from ucb_moppo.report.load import load_data, load_result_file
from ucb_moppo.store.run import load_run

PROVENANCE = provenance.Provenance("0123abc", {"cpu": "an abacus", "cores": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The result of a sample run: four evaluations, 3,000 training steps between them."""
    run = load_run(SampleRun(problem="Swimmer-v2", method="mean", seed=7).write(tmp_path / "run"))
    write_result(tmp_path / "results" / "mean-seed7.json", make_result(run, PROVENANCE))
    return tmp_path / "results" / "mean-seed7.json"


def test_a_result_holds_what_the_run_found(path: Path) -> None:
    run, found = load_run(path.parents[1] / "run"), read_result(path)
    assert (found["problem"], found["method"], found["seed"], found["finished"]) == ("Swimmer-v2", "mean", 7, True)
    assert found["commit"] == "0123abc"
    assert found["hardware"] == PROVENANCE.hardware
    assert found["config"] == run.config
    assert found["steps"] == {"training": 9000, "evaluation": 4000, "pretraining": 0}
    assert found["curve"]["training_steps"] == [0, 3000, 6000, 9000]
    assert found["curve"]["evaluation_steps"] == [1000, 2000, 3000, 4000]
    assert found["curve"]["seconds"] == [10.0, 20.0, 30.0, 40.0]
    for name in ("hypervolume", "expected_utility", "sparsity"):
        assert found["curve"][name] == [line[name] for line in run.metrics()]
        assert found["found"][name] == run.summary[name]
    front = run.front()
    for name in ("policy", "weights", "returns"):  # to the last bit
        assert np.array_equal(np.array(found["front"][name]), getattr(front, name))


def test_a_result_says_how_sure_its_front_is_and_what_the_surrogate_foresaw(tmp_path: Path) -> None:
    measured = {"episodes": 10, "steps": 500, "intervals": {"hypervolume": [1.0, 2.0]}, "selection": {}}
    sample = SampleRun(problem="Swimmer-v2", method="ucb", found={"held_out": measured})
    path = sample.write(tmp_path / "run")
    run = load_run(path)
    found = make_result(run, PROVENANCE)
    assert found["held_out"] == {name: measured[name] for name in ("episodes", "steps", "intervals")}
    np.testing.assert_array_equal(found["front"]["errors"], run.front_errors())
    assert found["surrogate"]["absolute_error"] == [None, None, [1.0, 1.0], [1.0, 1.0]]
    assert found["surrogate"]["absolute_change"] == [None, None, [3.0, 3.0], [3.0, 3.0]]


def test_a_users_own_indicator_comes_along(path: Path) -> None:
    """Read back, a result shows it like the run that it was made of; a curve of another length is refused."""
    run = path.parents[1] / "run"
    add_indicator(run, "my_lab:spread", [1.0, None, 4.0, 9.0])
    write_result(path, make_result(load_run(run), PROVENANCE))
    found = read_result(path)
    assert found["found"]["extra_indicators"] == {"my_lab:spread": 9.0}
    assert found["curve"]["extra_indicators"] == {"my_lab:spread": [1.0, None, 4.0, 9.0]}
    shown = load_result_file(path)
    np.testing.assert_array_equal(shown.series("my_lab:spread"), load_data(run).series("my_lab:spread"))
    assert shown.final("my_lab:spread") == 9.0
    found["curve"]["extra_indicators"]["my_lab:spread"].pop()
    path.write_text(json.dumps(found))
    with pytest.raises(DamagedFileError, match="curve extra_indicators must hold a number or null for each of 4"):
        read_result(path)


RESULTS = [path for path in sorted(Path(__file__).parents[2].glob("results/**/*.json")) if is_result(path)]


@pytest.mark.skipif(not RESULTS, reason="results of studies are in the repository alone")
def test_every_committed_result_reads_as_its_json() -> None:
    assert len(RESULTS) >= 40
    for path in RESULTS:
        assert read_result(path) == json.loads(path.read_text())


def test_numbers_that_json_has_no_word_for_become_null(path: Path) -> None:
    result = read_result(path)
    result["curve"]["sparsity"][0] = float("nan")
    result["found"]["sparsity"] = float("inf")
    write_result(path, result)
    found = read_result(path)
    assert found["curve"]["sparsity"][0] is None
    assert found["found"]["sparsity"] is None


def test_a_result_names_no_path_and_no_machine(path: Path) -> None:
    run = load_run(path.parents[1] / "run")
    real = provenance.Provenance(provenance.code_version(), provenance.hardware())
    result = json.loads(json.dumps(make_result(run, real)))
    assert_names_no_machine(result)
    assert result["hardware"]["cpu"]
    assert 0 < result["hardware"]["cores_used"] <= result["hardware"]["cores"]


def change(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


DAMAGE: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda d: d.update(kind="something"), "is not a ucb-moppo result"),
    (lambda d: d.update(format="1"), "it must be a number"),
    (lambda d: d.update(seed="7"), "seed is '7'; it must be a whole number"),
    (lambda d: d.update(problem=None), "problem is None; it must be text"),
    (lambda d: d["config"].update(horizon="long"), "config is .*horizon a whole number"),
    (lambda d: d.pop("front"), "front is None"),
    (lambda d: d.update(objectives=["one"]), "objectives is .*at least two"),
    (lambda d: d.update(finished="yes"), "finished is 'yes'"),
    (lambda d: d.update(policies=-1), "policies is -1"),
    (lambda d: d["steps"].pop("training"), "steps is "),
    (lambda d: d["found"].update(hypervolume="much"), "found is "),
    (lambda d: d["curve"].update(training_steps=[]), "for each of 0 evaluations"),
    (lambda d: d["curve"]["hypervolume"].pop(), "curve hypervolume must hold"),
    (lambda d: d["curve"].update(seconds=[None] * 4), "curve seconds must hold"),
    (lambda d: d["front"]["weights"].pop(), "front weights must hold"),
    (lambda d: d["front"].update(returns=[[1]] * len(d["front"]["policy"])), "front returns must hold"),
    (lambda d: d["front"].update(policy=["0"] * len(d["front"]["policy"])), "do not fit"),
    (lambda d: d.update(reference_point=[0.0]), "do not fit"),
    (lambda d: d.update(seconds=10**400), "seconds is 1000.*; it must be a number"),
    (lambda d: d.update(seed=10**400), "seed is 1000.*; it must be a whole number"),
    (lambda d: d.update(seconds=True), "seconds is True; it must be a number"),
    (lambda d: d["steps"].update(training=True), "steps is "),
    (lambda d: d["curve"].update(training_steps=4), "for each of 0 evaluations"),
    (lambda d: d["curve"]["seconds"].append(10**400), "curve seconds must hold"),
    (lambda d: d["curve"].update(hypervolume={"__class__": "os.system"}), "curve hypervolume must hold"),
]


@pytest.mark.parametrize(("edit", "message"), DAMAGE)
def test_a_damaged_result_is_a_readable_error(edit: Callable, message: str, path: Path) -> None:
    change(path, edit)
    with pytest.raises(DamagedFileError, match=message) as fault:
        read_result(path)
    assert str(path) in str(fault.value)


def test_a_newer_format_asks_for_a_newer_version(path: Path) -> None:
    change(path, lambda data: data.update(format=99))
    with pytest.raises(FormatVersionError, match="upgrade ucb-moppo"):
        read_result(path)


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04\x95", b"[1, 2]", b'{"kind": NaN}', b"[" * 200_000, b"\xff\xfe", b'{"kind": 1e999}']
)
def test_bytes_that_are_no_result_are_refused(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    with pytest.raises(RunFormatError):
        read_result(path)


def test_links_pipes_and_giants_are_not_read(path: Path) -> None:
    link = path.with_name("link.json")
    link.symlink_to(path)
    with pytest.raises(UnsafeFileError, match="is a link"):
        read_result(link)
    giant = path.with_name("giant.json")
    with giant.open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(UnsafeFileError, match="bytes"):
        read_result(giant)


# --- where results come from -------------------------------------------------------------------------------


def test_the_commit_is_that_of_the_sources(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "__init__.py").write_text("")
    assert provenance.code_version(source).startswith("ucb-moppo ")  # no repository at all
    git(tmp_path, "init", "-q")
    assert provenance.code_version(source).startswith("ucb-moppo ")  # a repository of something else
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-qm", "x")
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "notes.txt").write_text("results beside the sources do not make them dirty")
    assert provenance.code_version(source) == commit
    (source / "new.py").write_text("")
    assert provenance.code_version(source) == f"{commit}-dirty"


def git(directory: Path, *arguments: str) -> str:
    import subprocess

    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", "-C", str(directory), *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
