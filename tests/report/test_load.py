"""Reading runs: whole, still being written, and broken."""

import json
import shutil

import numpy as np
import pytest
from sample_runs import STEPS_PER_STAGE, SampleRun, add_indicator, rewrite

from ucb_moppo.bench.provenance import Provenance
from ucb_moppo.bench.result import make_result, write_result
from ucb_moppo.errors import RunFormatError
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.runs import INDICATOR_LABELS, RunData, indicator_labels
from ucb_moppo.report.sections import make_groups
from ucb_moppo.store.run import load_run


@pytest.fixture
def run(tmp_path):
    return SampleRun().write(tmp_path / "one")


def test_reads_everything(run):
    data = load_data(run)
    assert data.stages == [0, 1, 2, 3]
    assert data.steps.tolist() == [0, STEPS_PER_STAGE, 2 * STEPS_PER_STAGE, 3 * STEPS_PER_STAGE]
    returns = np.stack([one.returns for one in data.history])
    assert returns.shape == (4, 12, 2)
    np.testing.assert_array_equal(returns[-1], data.evaluated.returns)
    # Every point of an arc is on the front; the radius doubles from first to last.
    assert data.on_front.all()
    np.testing.assert_allclose(np.linalg.norm(returns[[0, -1]], axis=-1), [[50] * 12, [100] * 12])


def test_a_stage_that_is_half_written_is_left_out(run):
    for name in ("metrics.jsonl", "evaluations.csv"):
        text = (run / name).read_text()
        (run / name).write_text(text + text[: len(text) // 10])
    assert load_data(run).stages == [0, 1, 2, 3]


def test_evaluations_may_be_ahead_of_metrics(run):
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    rewrite(run, "metrics.jsonl", b"".join(lines[:-1]))
    data = load_data(run)
    assert data.stages == [0, 1, 2]
    assert len(data.history) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metrics.jsonl", b"not json\n", "metrics.jsonl"),
        ("metrics.jsonl", b"{}\n", "missing required field `stage`"),
        ("summary.json", b"{}", "missing required field `problem`"),
        ("summary.json", b"[", "summary.json"),
        ("front.csv", b"", "empty"),
        ("front.csv", b"policy,weight_1,return_1,on_front\nx,1,1,true\n", "cannot be read"),
        ("evaluations.csv", b"", "no evaluation yet"),
    ],
)
def test_a_file_of_nonsense_is_named(run, name, content, message):
    rewrite(run, name, content)
    with pytest.raises(RunFormatError, match=message):
        load_data(run)


@pytest.mark.parametrize("name", ["metrics.jsonl", "summary.json", "front.csv", "evaluations.csv"])
def test_a_damaged_or_missing_file_is_named(run, name):
    (run / name).write_bytes(b"\xff\xfe")
    with pytest.raises(RunFormatError, match=name.replace(".", r"\.")):
        load_data(run)
    (run / name).unlink()
    with pytest.raises(RunFormatError, match=name.replace(".", r"\.")):
        load_data(run)


@pytest.mark.parametrize("rows", [1, 4, 11])
def test_a_front_that_was_cut_off_is_not_whole(run, rows):
    # Runs of format 1 have no manifest that would know.
    lines = (run / "front.csv").read_bytes().splitlines(keepends=True)
    rewrite(run, "front.csv", b"".join(lines[: 1 + rows]))
    with pytest.raises(RunFormatError, match=rf"front.csv is not whole: {rows} rows"):
        load_data(run)


def test_runs_of_the_same_name_are_told_apart(run, tmp_path):
    shutil.copytree(run, tmp_path / "b" / "one")
    names = [data.name for data in load_all([run, tmp_path / "b" / "one", run])]
    assert names == [f"{tmp_path.name}/one", "b/one"]


def test_the_sample_is_json_all_through(run):
    assert json.loads((run / "config.json").read_text())["problem"] == "paper-problem"


def test_a_run_and_its_result_file_are_the_same_and_count_once(tmp_path):
    run = SampleRun(problem="Swimmer-v2").write(tmp_path / "run")
    write_result(tmp_path / "r" / "ucb.json", make_result(load_run(run), Provenance("0", {})))
    (result,) = load_all([tmp_path / "r" / "ucb.json"])
    data = load_data(run)
    assert not isinstance(result, RunData)
    np.testing.assert_array_equal(result.front, data.front)
    for name in ("hypervolume", "expected_utility", "sparsity", "seconds", "training_steps"):
        np.testing.assert_array_equal(result.series(name), data.series(name))
    (both,) = load_all([tmp_path / "r", run])
    assert isinstance(both, RunData)
    assert len(make_groups([result, data])) == 1


# --- extra indicators --------------------------------------------------------------------------------------


def test_an_extra_indicator_is_read_beside_the_others(run):
    data = load_data(run)
    assert data.extra_indicators == []
    assert indicator_labels([data]) == INDICATOR_LABELS
    add_indicator(run, "my_lab:spread", [1.0, None, 4.0, 9.0])
    data = load_data(run)
    assert data.extra_indicators == ["my_lab:spread"]
    assert list(indicator_labels([data]).items())[4:] == [("my_lab:spread", "my_lab:spread")]
    np.testing.assert_array_equal(data.series("my_lab:spread"), [1.0, np.nan, 4.0, 9.0])
    assert data.final("my_lab:spread") == 9.0


def test_an_extra_indicator_does_not_hide_one_of_ours(run):
    before = load_data(run).final("hypervolume")
    add_indicator(run, "hypervolume", [-1.0] * 4)
    data = load_data(run)
    assert data.extra_indicators == []
    assert data.final("hypervolume") == before


@pytest.mark.parametrize("name", ["summary.json", "metrics.jsonl"])
@pytest.mark.parametrize("extra", [["spread"], {"spread": "wide"}, 3])
def test_extra_indicators_that_are_no_numbers_are_named(run, name, extra):
    lines = [json.loads(line) for line in (run / name).read_text().splitlines()] if name[-1] == "l" else None
    records = lines or [json.loads((run / name).read_text())]
    rewrite(run, name, "\n".join(json.dumps(one | {"extra_indicators": extra}) for one in records).encode() + b"\n")
    with pytest.raises(RunFormatError, match=rf"{name} does not hold .*extra_indicators"):
        load_data(run)
