"""The interpolation study: a table in the run, a row per number of weights."""

from pathlib import Path

import numpy as np
import pytest
from sample_runs import SampleRun

from ucb_moppo.cli.main import main
from ucb_moppo.training.interpolate import STUDY_COLUMNS, interpolate_run, read_study
from ucb_moppo.training.reevaluate import evaluate_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    sample = SampleRun(problem="Swimmer-v2", num_policies=2, probes=2, horizon=5)
    return sample.write(tmp_path / "one")


def test_interpolation_study_joins_the_run(run: Path) -> None:
    main(["interpolate", str(run), "--weights", "2", "4", "--episodes", "1", "--held-out", "0", "--quiet"])
    study = read_study(run)
    assert study is not None
    assert study["weights_per_policy"].tolist() == [2, 4]
    assert study["evaluation_steps"].tolist() == [2 * 2 * 5, 2 * 4 * 5]
    assert study["held_out"].tolist() == [0, 0]
    assert (study["hypervolume"] >= 0).all()


def test_fronts_are_measured_as_those_of_an_evaluation(run: Path) -> None:
    """What nothing was chosen by, so that more points are no better for being more often lucky."""
    (row,) = interpolate_run(run, [3], 2, held_out=4)
    alone = evaluate_run(run, 3, 2, held_out=4)
    assert row == alone
    assert row["hypervolume"] != evaluate_run(run, 3, 2, held_out=0)["hypervolume"]
    study = read_study(run)
    assert study is not None
    assert [study["episodes"].tolist(), study["held_out"].tolist()] == [[2], [4]]
    np.testing.assert_array_equal(study["hypervolume"], row["hypervolume"])


def test_a_study_that_was_measured_by_what_chose_it_is_still_read(run: Path) -> None:
    older = STUDY_COLUMNS[:-1]
    (run / "interpolation.csv").write_text(",".join(older) + "\n10,1,1,9,3,5,1\n")
    study = read_study(run)
    assert study is not None
    assert study["held_out"].tolist() == [0]
