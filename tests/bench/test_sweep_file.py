"""Sweeps from JSON: what runs, in which order and with which settings, and errors that name value and remedy."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from ucb_moppo.bench.sweep_file import Cell, cell_config, check_cells, evaluated_weights, parse_sweep, read_sweep
from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import ConfigError, UcbMoppoWarning

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SPEC: dict[str, Any] = {
    "name": "two-by-two",
    "problems": ["Swimmer-v2", "Hopper-v2"],
    "methods": ["fixed", "ucb"],
    "seeds": [3, 1],
    "steps": 100_000,
}


def test_cells_come_seed_by_seed() -> None:
    """A sweep cut short after four of eight cells has all of seed 3."""
    names = [cell.name for cell in parse_sweep(SPEC).cells()]
    first = ["Swimmer-v2/fixed-seed3", "Swimmer-v2/ucb-seed3", "Hopper-v2/fixed-seed3", "Hopper-v2/ucb-seed3"]
    assert names == [*first, *(name.replace("seed3", "seed1") for name in first)]


def test_a_methods_settings_stand_above_a_problems_and_both_above_the_common_ones() -> None:
    spec = parse_sweep(
        SPEC
        | {
            "settings": {"gamma": 0.5, "clip": 0.3, "epochs": 2, "preset": "paper"},
            "per_problem": {"Swimmer-v2": {"gamma": 0.6, "clip": 0.4, "steps": 200_000}},
            "per_method": {"ucb": {"gamma": 0.7, "max_seconds": 60}},
            "max_seconds": 90.5,
        }
    )
    cells = {cell.name: cell for cell in spec.cells()}
    cell = cells["Swimmer-v2/ucb-seed1"]
    assert cell.max_seconds == 60
    config = cell_config(cell)
    expected = override(
        default_settings("Swimmer-v2", "paper"),
        **{"method": "ucb", "seed": 1, "gamma": 0.7, "clip": 0.4, "epochs": 2, "steps": 200_000, "shards": 1},
    )
    assert config == resolve(expected, make_spec("Swimmer-v2"))
    other = cells["Hopper-v2/fixed-seed3"]
    assert other.max_seconds == 90.5
    found = cell_config(other)
    assert (found.ppo.gamma, found.ppo.clip, found.steps, found.ppo.epochs) == (0.5, 0.3, 100_000, 2)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (4, 8)),  # two policies an objective; 8 probes are what a fifth of a million steps pays for
        ({"preset": "quick"}, (4, 8)),
        ({"policies": 5, "probes": 3}, (5, 3)),
        ({"preset": "quick", "probes": 3}, (4, 3)),
    ],
)
def test_every_method_is_evaluated_on_the_same_weights(settings: dict[str, int], expected: tuple[int, int]) -> None:
    problem = {"problems": ["Swimmer-v2"]}
    assert_same_weights(problem | {"settings": settings}, expected)


@pytest.mark.parametrize(("preset", "expected"), [("tuned", (4, 8)), ("paper", (10, 10)), ("quick", (4, 8))])
def test_presets_differ_in_their_weights(preset: str, expected: tuple[int, int]) -> None:
    assert_same_weights({"problems": ["Ant-v2"], "settings": {"preset": preset}}, expected)


def assert_same_weights(changes: dict[str, Any], expected: tuple[int, int]) -> None:
    spec = parse_sweep(SPEC | {"methods": ["ucb", "pdmorl"], "steps": 1_000_000} | changes)
    assert {evaluated_weights(cell_config(cell)) for cell in spec.cells()} == {expected}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_cells(spec.cells())


def test_methods_on_different_weights_are_told() -> None:
    spec = parse_sweep(SPEC | {"methods": ["fixed", "ucb", "pdmorl"], "per_method": {"ucb": {"policies": 5}}})
    told = r"different weights on Swimmer-v2 \(policies × probes: fixed 4 × 1, ucb 5 × 1\)"
    with pytest.warns(UcbMoppoWarning, match=told):
        check_cells([cell for cell in spec.cells() if cell.problem == "Swimmer-v2"])


def test_methods_that_choose_no_weights_are_told_once() -> None:
    changes = {"methods": ["fixed", "ucb"], "settings": {"layout": "static", "warmup": 9999}}
    spec = parse_sweep(SPEC | changes)
    with pytest.warns(UcbMoppoWarning, match="method ucb chooses no weights: .* as method fixed does") as told:
        check_cells([cell for cell in spec.cells() if cell.problem == "Swimmer-v2"])
    assert [str(one.message).split(":")[0] for one in told] == ["Swimmer-v2"]


def test_a_cell_has_one_shard_unless_told_otherwise() -> None:
    """Left open it would be one per core: another number where the sweep is checked than where a cell runs."""
    assert {cell_config(cell).shards for cell in parse_sweep(SPEC | {"steps": 2_500_000}).cells()} == {1}
    spec = parse_sweep(SPEC | {"per_method": {"ucb": {"shards": 3}}})
    assert [cell_config(cell).shards for cell in spec.cells()[:2]] == [1, 3]


def test_names_of_problems_become_names_of_directories() -> None:
    assert Cell("probe_envs:probe/Trade-v0", "ucb", 0).name == "probe_envs-probe-Trade-v0/ucb-seed0"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"metods": ["ucb"]}, "unknown key 'metods'; did you mean methods"),
    ({"name": "../elsewhere"}, "name is '../elsewhere'; it must be letters"),
    ({"name": ""}, "name is ''"),
    ({"seeds": []}, "seeds is []; it must be a list with at least one entry"),
    ({"seeds": [0, 0]}, "seeds names 0 more than once"),
    ({"seeds": [True]}, "seeds holds True; it must be a whole number"),
    ({"seeds": [-1]}, "seed is -1"),
    ({"problems": "Swimmer-v2"}, "problems is 'Swimmer-v2'; it must be a list"),
    ({"problems": ["Swimer-v2"]}, "Swimmer-v2"),
    ({"methods": ["ucp"]}, "unknown method 'ucp'; did you mean ucb"),
    ({"steps": 2.5e6}, "steps is 2500000.0; it must be a whole number"),
    ({"steps": "2500000"}, "steps is '2500000'; it must be a whole number"),
    ({"steps": 10}, "steps is 10, too few for one iteration"),
    ({"settings": [1]}, "settings is [1]; it must be an object of settings"),
    ({"settings": {"gama": 0.9}}, "unknown setting 'gama'; did you mean gamma"),
    ({"settings": {"gamma": 2}}, "gamma is 2; it must lie in [0, 1]"),
    ({"settings": {"gamma": "0.9"}}, "gamma is '0.9'; it must be a number"),
    ({"settings": {"epochs": True}}, "epochs is True; it must be a whole number"),
    ({"settings": {"decay": 1}}, "decay is 1; it must be true or false"),
    ({"settings": {"seed": 4}}, "settings holds 'seed'; the sweep's own lists say which seeds are run"),
    ({"per_method": {"mean": {}}}, "per_method names 'mean', which the sweep does not run"),
    ({"per_problem": {"Ant-v2": {}}}, "per_problem names 'Ant-v2', which the sweep does not run"),
    ({"max_seconds": 0}, "max_seconds is 0; it must be a positive number"),
    ({"max_seconds": True}, "max_seconds is True; it must be a positive number"),
    ({"max_seconds": 10**400}, "it must be a positive number"),
    ({"steps": 10**400}, "cell Swimmer-v2/fixed-seed3: "),
    ({"settings": {"gamma": 10**400}}, "it must be a number"),
    ({"settings": {"policies": "4"}}, "policies is '4'; it must be a whole number or null"),
    ({"settings": {"selection": 1}}, "selection is 1; it must be text"),
    ({"settings": {"selection": "top_m"}}, "unknown selection 'top_m'; did you mean top_n"),
    ({"settings": {"reference_point": [0, "0"]}}, "it must be a list or null (Expected `float`, got `str`"),
    ({"max_seconds": "1 h"}, "max_seconds is '1 h'; it must be a positive number"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_errors_name_the_file_the_value_and_the_remedy(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(SPEC | change))
    with pytest.raises(ConfigError) as fault:
        read_sweep(path)
    assert str(path) in str(fault.value)
    assert message in str(fault.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '"name"', "[" * 100_000, '{"seeds": [NaN]}', '{"seeds": [1e999]}'])
def test_what_is_no_sweep_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="sweep"):
        read_sweep(path)


def test_missing_entries_are_named() -> None:
    with pytest.raises(ConfigError, match="lacks methods, seeds"):
        parse_sweep({"name": "x", "problems": ["Swimmer-v2"]})


def test_the_committed_sweep_is_the_one_promised() -> None:
    spec = read_sweep(BENCHMARKS / "first-results.json")
    assert len(spec.cells()) == 36
    assert {cell.settings["steps"] for cell in spec.cells()} == {2_500_000}


# Its results are of version 0.2.0, whose peers had as many weights as it had policies.
OLDER = BENCHMARKS / "first-results-peers.json"


@pytest.mark.parametrize("path", sorted({*BENCHMARKS.glob("*.json")} - {OLDER}), ids=lambda path: path.stem)
def test_methods_of_a_committed_sweep_can_be_compared(path: Path) -> None:
    """Evaluated on the same weights, and choosing some."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UcbMoppoWarning)
        check_cells(read_sweep(path).cells())
