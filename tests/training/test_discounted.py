"""Discounted evaluation: the same sum wherever a run is measured, and every display says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_runs import SampleRun
from tiny_runs import train_tiny

import ucb_moppo
from ucb_moppo.bench.provenance import Provenance
from ucb_moppo.bench.result import make_result, read_result, write_result
from ucb_moppo.cli import main as cli
from ucb_moppo.cli.display import summary_lines
from ucb_moppo.config import default_settings, from_json, from_run, make_settings, override, resolve
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.objectives.indicators import measure
from ucb_moppo.report.cells import NONE
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.paper_table import paper_table
from ucb_moppo.report.run_tables import summary_table
from ucb_moppo.report.sections import make_sections
from ucb_moppo.report.words import describe_runs
from ucb_moppo.store.run import load_run
from ucb_moppo.training.forecast import run_policy
from ucb_moppo.training.reevaluate import evaluate_run
from ucb_moppo.viewer.page_layout import status_text

HALVED = 1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16
"""The first objective of Counter pays 1 in each of five steps, whatever is done."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    path = tmp_path_factory.mktemp("discounted") / "run"
    return train_tiny(path, problem="probe_envs:probe/Counter-v0", evaluation_discount=0.5, held_out=2)


def test_stages_and_the_held_out_front_are_discounted(run: ucb_moppo.Run) -> None:
    assert np.array_equal(np.unique(run.evaluations()["return_1"]), [HALVED])
    assert np.array_equal(np.unique(run.evaluated().returns[:, 0]), [HALVED])
    assert np.array_equal(np.unique(run.table()["selection_1"]), [HALVED])
    # Choices 0, 1, 2 at every step: the second objective is at most twice the first.
    assert run.summary["expected_utility"] <= 1.5 * HALVED
    assert run.summary["held_out"]["selection"]["expected_utility"] <= 1.5 * HALVED


def test_it_is_recorded(run: ucb_moppo.Run, tmp_path: Path) -> None:
    assert run.config["evaluation_discount"] == run.summary["evaluation_discount"] == 0.5
    write_result(tmp_path / "result.json", make_result(run, Provenance("abc", {})))
    assert read_result(tmp_path / "result.json")["evaluation_discount"] == 0.5
    assert load_all([tmp_path / "result.json"])[0].discount == 0.5


def test_evaluate_discounts_as_the_run_did_or_as_it_is_told(
    run: ucb_moppo.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluate_run(run.path, None, out=tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (run.path / "front.csv").read_bytes()
    assert found["evaluation_discount"] == 0.5
    plain = evaluate_run(run.path, None, discount=1.0)
    assert plain["evaluation_discount"] == 1.0
    assert plain["expected_utility"] == pytest.approx(found["expected_utility"] * 5 / HALVED, rel=0.5)
    assert plain["expected_utility"] >= 2.5  # half of the weight is on what always pays 5
    with pytest.raises(ConfigError, match=r"--discount is 1\.5"):
        evaluate_run(run.path, None, discount=1.5)
    cli.main(["evaluate", str(run.path)])
    assert "returns are discounted by 0.5 a step" in capsys.readouterr().out


def test_a_forecast_is_in_the_units_that_were_chosen_by(run: ucb_moppo.Run) -> None:
    assert np.array_equal(run_policy(run, 0, num_episodes=3).returns[:, 0], [HALVED] * 3)


def test_every_display_says_so(run: ucb_moppo.Run) -> None:
    data = load_data(run.path)
    assert "returns are discounted by 0.5 a step" in summary_lines(run)
    assert describe_runs([data]).endswith("· returns discounted by 0.5")
    assert ("returns", "discounted by 0.5") in summary_table(data).rows
    assert "· returns discounted by 0.5" in status_text(data, None)


def test_nothing_is_said_of_usual_returns(tmp_path: Path) -> None:
    path = SampleRun().write(tmp_path / "run")
    data = load_data(path)
    assert data.discount == 1
    words = [*summary_lines(load_run(path)), describe_runs([data]), status_text(data, None)]
    assert not any("discounted" in line for line in words)
    assert ("returns", "undiscounted") in summary_table(data).rows


def test_runs_that_discount_differently_share_no_section(tmp_path: Path) -> None:
    paths = [
        SampleRun(seed=seed, settings={"evaluation_discount": discount}).write(tmp_path / f"{seed}")
        for seed, discount in ((0, 1.0), (1, 0.9), (2, 0.9))
    ]
    plain, discounted = make_sections(load_all(paths))
    assert [run.seed for run in discounted.runs] == [1, 2]
    assert "gymnasium discounted by 0.9" in discounted.title
    assert discounted.groups[0].label == plain.groups[0].label == "ucb"


def test_a_discount_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    path = SampleRun().write(tmp_path / "run")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"evaluation_discount": "much"}))
    with pytest.raises(RunFormatError):
        load_data(path)


# --- what is decided ---------------------------------------------------------------------------------------


def decided(problem: str, **settings: Any) -> tuple[float, int]:
    made = make_settings(problem, **settings)
    config = resolve(made, make_spec(problem, protocol=made.protocol))
    return config.evaluation_discount, config.utility_divisions


def test_the_protocol_decides_and_what_is_given_stands() -> None:
    assert decided("mo-hopper-2obj-v5") == (1.0, 99)
    assert decided("mo-hopper-2obj-v5", protocol="cmorl") == (0.99, 100)
    assert decided("mo-ant-v5", protocol="cmorl") == (0.99, 10)
    assert decided("mo-ant-v5", protocol="cmorl", method="pgmorl") == (0.99, 10)
    given = {"evaluation_discount": 1.0, "utility_divisions": 20}
    assert decided("mo-ant-v5", protocol="cmorl", **given) == (1.0, 20)
    assert decided("Swimmer-v2", evaluation_discount=0.9) == (0.9, 99)


@pytest.mark.parametrize("discount", [0.0, -0.5, 1.01, float("nan")])
def test_discounts_outside_are_refused(discount: float) -> None:
    with pytest.raises(ConfigError, match=r"evaluation_discount is .*\(0, 1\]"):
        override(default_settings("Swimmer-v2"), evaluation_discount=discount)


def test_a_lattice_that_explodes_is_refused() -> None:
    """100 divisions of four objectives: C(103, 3) = 176,851 weights are fine, 400 are C(403, 3) = 10,827,401."""
    spec = make_spec("mo-reacher-v5")
    settings = default_settings("mo-reacher-v5")
    assert resolve(override(settings, utility_divisions=100), spec).utility_divisions == 100
    with pytest.raises(ConfigError, match=r"10,827,401 weights"):
        resolve(override(settings, utility_divisions=400), spec)


def test_a_run_older_than_these_settings_was_measured_as_usual() -> None:
    """Also one under C-MORL's protocol; what is not a run yet gets what the protocol has."""
    spec = make_spec("mo-ant-v5", protocol="cmorl")
    config = resolve(make_settings("mo-ant-v5", protocol="cmorl"), spec).to_json()
    old = {name: config[name] for name in config if name not in ("evaluation_discount", "utility_divisions")}
    as_it_was = resolve(from_run(old), spec)
    assert (as_it_was.evaluation_discount, as_it_was.utility_divisions) == (1.0, 13)  # C(15, 2) = 105 weights
    assert resolve(from_run(config), spec).to_json() == config
    assert resolve(from_json(old), spec).evaluation_discount == 0.99


def test_expected_utility_over_given_weights() -> None:
    """(1, 0) and (0, 1): max(w, 1 − w) at 0, ½, 1 is (1 + ½ + 1)/3; over 101 weights the mean of 1 − min(w, 1 − w),
    of which Σ min = 2·(0.01 + … + 0.49) + ½ = 25."""
    points = np.eye(2)[None]
    assert measure(points, (0.0, 0.0), 2)["expected_utility"] == pytest.approx(2.5 / 3)
    assert measure(points, (0.0, 0.0), 100)["expected_utility"] == pytest.approx(1 - 25 / 101)


# --- what is printed ---------------------------------------------------------------------------------------


def cmorl_run(path: Path, problem: str = "mo-hopper-2obj-v5", **settings: Any) -> Path:
    return SampleRun(
        problem=problem,
        horizon=500,
        settings={"protocol": "cmorl"} | settings,
        found={"hypervolume": 1.4e5, "expected_utility": 260.0, "sparsity": 30.0, "reference_point": [-100.0] * 2},
    ).write(path)


def test_runs_under_c_morls_protocol_stand_beside_what_it_and_others_printed(tmp_path: Path) -> None:
    section = make_sections(load_all([cmorl_run(tmp_path / "run")]))[0]
    table = paper_table(section)
    assert table is not None
    assert table.columns[2:] == ("HV (protocol C)", "EU (protocol C)", "SP (protocol C)")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["ucb"] == ("this report, 1 seed", "140,000", "260.0", "30.00")
    assert rows["C-MORL"][1:] == ("136,500 ± 3,300", "252.9 ± 2.8", "50.00")
    assert rows["D3PO"][1:] == ("130,000 ± 3,000", "247.0 ± 1.0", "26.00")
    assert rows["PG-MORL"][1:] == ("120,000", NONE, NONE)
    assert "its page" in rows["D3PO"][0]
    assert "discounted by 0.99" in table.note
    assert "no column" not in table.note


def test_other_discounts_and_protocols_have_no_column_there(tmp_path: Path) -> None:
    paths = [
        cmorl_run(tmp_path / "undiscounted", evaluation_discount=1.0),
        SampleRun(problem="mo-hopper-2obj-v5").write(tmp_path / "gymnasium"),
    ]
    for section in make_sections(load_all(paths)):
        table = paper_table(section)
        assert table is not None
        assert not any(row[1].startswith("this report") for row in table.rows)
        assert "no column here" in table.note


def test_the_overview_has_printed_columns(tmp_path: Path) -> None:
    from ucb_moppo.report.benchmark import overview_table

    paths = [cmorl_run(tmp_path / name, name) for name in ("mo-hopper-2obj-v5", "mo-ant-2obj-v5")]
    table = overview_table(make_sections(load_all(paths)))
    printed = tuple(f"{name} (printed, protocol C)" for name in ("C-MORL", "D3PO", "PG-MORL", "GPI-LS"))
    assert table.columns == ("problem", "", "ucb", *printed)
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["mo-ant-2obj-v5", "EU"] == ("260.0", "251.0 ± 26.0", "314.0 ± 21.0", NONE, "428.0")
    assert rows["mo-hopper-2obj-v5", "HV"][3:] == ("120,000", NONE)
    assert "their own budgets" in table.note
