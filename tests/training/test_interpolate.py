"""The interpolation study: a table in the run, a row per number of weights."""

from sample_runs import SampleRun

from ucb_moppo.cli.main import main
from ucb_moppo.training.interpolate import read_study


def test_interpolation_study_joins_the_run(tmp_path, capsys):
    run = SampleRun(problem="Swimmer-v2", num_policies=2, probes=2, horizon=5).write(tmp_path / "one")
    main(["interpolate", str(run), "--weights", "2", "4", "--quiet"])
    study = read_study(run)
    assert study["weights_per_policy"].tolist() == [2, 4]
    assert study["evaluation_steps"].tolist() == [2 * 2 * 5, 2 * 4 * 5]
    assert (study["hypervolume"] >= 0).all()
