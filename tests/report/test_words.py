"""What captions say of runs: which they are, and whether they have ended."""

from sample_results import write_results
from sample_runs import SampleRun

from ucb_moppo.report.benchmark import efficiency_table
from ucb_moppo.report.curves import indicators_picture
from ucb_moppo.report.fronts import growth_picture
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.sections import make_sections
from ucb_moppo.report.words import BY_STAGES, describe_curves, describe_runs


def test_description_names_runs_seeds_and_steps(tmp_path):
    paths = [SampleRun(seed=seed, finished=seed == 0).write(tmp_path / f"r{seed}") for seed in range(6)]
    one, six = describe_runs(load_all(paths[:1])), describe_runs(load_all(paths))
    assert one == "run r0 · seed 0 · 9,000 training steps"
    assert six == "6 runs: paper-problem ucb seeds 0, 1, 2, 3, 4, 5 · 9,000 training steps · 5 still training"


def test_a_run_that_time_ended_is_not_said_to_go_on(tmp_path):
    write_results(tmp_path, "Swimmer-v2", "ucb", [10])
    assert describe_runs(load_all([tmp_path])) == "run ucb-seed0 · seed 0 · 2,000 training steps"
    write_results(tmp_path, "Swimmer-v2", "pgmorl", [5], finished=False, stopped="max_seconds")
    (peer,) = load_all([tmp_path / "Swimmer-v2" / "pgmorl-seed0.json"])
    assert describe_runs([peer]) == "run pgmorl-seed0 · seed 0 · 2,000 training steps, where its time was up"
    assert describe_runs(load_all([tmp_path])).endswith(" · 2,000 training steps · 1 ended by a limit of time")


def test_a_curve_says_why_it_ends_elsewhere_than_its_run_reports(tmp_path):
    """Only where episodes are held out; the efficiency of methods is told in the same words."""
    measured, chosen = (
        load_data(SampleRun(settings={"held_out": held_out}).write(tmp_path / str(held_out)))
        for held_out in (10, 0)
    )
    words = (
        "Curves are measured by the episodes that stages choose by; the numbers of a finished run, which may "
        "differ, by held-out ones and, where its budget allows, on more weights."
    )
    assert (describe_curves(measured), describe_curves(chosen)) == (words, "")
    for make in (indicators_picture, growth_picture):
        assert f" {words} Shown: run 10 " in make(measured).caption
        assert "held-out" not in make(chosen).caption
        assert ".  " not in make(chosen).caption
    (section,) = make_sections(load_all([tmp_path / "10"]))
    assert f", {BY_STAGES} (so are curves; final tables" in efficiency_table(section).note
