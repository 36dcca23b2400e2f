"""Reading runs: whole, still being written, and broken."""

import json
import shutil

import numpy as np
import pytest
from sample_runs import STEPS_PER_STAGE, rewrite, write_sample

from ucb_moppo.errors import RunFormatError
from ucb_moppo.report.data import describe_runs, load_all, load_data, make_groups, make_sections


@pytest.fixture
def run(tmp_path):
    return write_sample(tmp_path / "one")


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
        ("metrics.jsonl", b"{}\n", "without its stage"),
        ("summary.json", b"{}", "lacks problem"),
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


def test_groups_hold_runs_that_differ_in_their_seed_alone(tmp_path):
    runs = load_all(
        [
            write_sample(tmp_path / "a", seed=1),
            write_sample(tmp_path / "b", seed=0),
            write_sample(tmp_path / "c", method="mean"),
        ]
    )
    assert [(group.label, group.seeds) for group in make_groups(runs)] == [("ucb", [0, 1]), ("mean", [0])]


def test_groups_name_settings_that_differ(tmp_path):
    runs = load_all([write_sample(tmp_path / "a"), write_sample(tmp_path / "b", gamma=0.5)])
    assert [group.label for group in make_groups(runs)] == ["ucb (gamma 0.5)", "ucb (gamma 0.99)"]


def test_horizons_do_not_share_a_section(tmp_path):
    runs = load_all(
        [
            write_sample(tmp_path / "a", problem="Swimmer-v2"),
            write_sample(tmp_path / "b", problem="Swimmer-v2", horizon=500),
        ]
    )
    titles = [section.title for section in make_sections(runs)]
    assert titles == [
        "Swimmer-v2 (protocol gymnasium, horizon 1000, reference point 0, 0)",
        "Swimmer-v2 (protocol gymnasium, horizon 500, reference point 0, 0)",
    ]


def test_description_names_runs_seeds_and_steps(tmp_path):
    paths = [write_sample(tmp_path / f"r{seed}", seed=seed, finished=seed == 0) for seed in range(6)]
    one, six = describe_runs(load_all(paths[:1])), describe_runs(load_all(paths))
    assert one == "run r0 · seed 0 · 9,000 training steps"
    assert six == "6 runs: paper-problem ucb seeds 0, 1, 2, 3, 4, 5 · 9,000 training steps · 5 still training"


def test_the_sample_is_json_all_through(run):
    assert json.loads((run / "config.json").read_text())["problem"] == "paper-problem"
