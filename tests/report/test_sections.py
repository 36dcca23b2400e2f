"""Which runs share a section and a group: those that differ in nothing but what a table compares."""

from sample_results import sample_result
from sample_runs import SampleRun

from ucb_moppo.bench.result import write_result
from ucb_moppo.report.load import load_all
from ucb_moppo.report.method_tables import comparison_table
from ucb_moppo.report.sections import make_groups, make_sections


def test_groups_hold_runs_that_differ_in_their_seed_alone(tmp_path):
    runs = load_all(
        [
            SampleRun(seed=1).write(tmp_path / "a"),
            SampleRun(seed=0).write(tmp_path / "b"),
            SampleRun(method="mean").write(tmp_path / "c"),
        ]
    )
    assert [(group.label, group.seeds) for group in make_groups(runs)] == [("ucb", [0, 1]), ("mean", [0])]


def test_groups_name_settings_that_differ(tmp_path):
    runs = load_all([SampleRun().write(tmp_path / "a"), SampleRun(settings={"gamma": 0.5}).write(tmp_path / "b")])
    assert [group.label for group in make_groups(runs)] == ["ucb (gamma 0.5)", "ucb (gamma 0.99)"]


def test_what_a_weighted_sum_does_not_look_at_tells_no_runs_apart(tmp_path):
    for seed, penalty in enumerate((10.0, 4.0)):
        goal = {"utility": "linear", "actions": "deterministic", "floor_penalty": penalty}
        config = {"problem": "p", "horizon": 1000, "steps": 2000, "search": {}, "goal": goal}
        write_result(tmp_path / f"{seed}.json", sample_result(seed=seed, config=config))
    assert [(group.label, group.seeds) for group in make_groups(load_all([tmp_path]))] == [("ucb", [0, 1])]


def test_horizons_do_not_share_a_section(tmp_path):
    runs = load_all(
        [
            SampleRun(problem="Swimmer-v2").write(tmp_path / "a"),
            SampleRun(problem="Swimmer-v2", horizon=500).write(tmp_path / "b"),
        ]
    )
    titles = [section.title for section in make_sections(runs)]
    assert titles == [
        "Swimmer-v2 (protocol gymnasium, horizon 1000, reference point 0, 0)",
        "Swimmer-v2 (protocol gymnasium, horizon 500, reference point 0, 0)",
    ]


def test_other_methods_have_settings_of_their_own(tmp_path):
    """That PGMORL has a gamma or a budget and we another says nothing about our runs; what was trained is noted."""
    ours = sample_result(
        config={"problem": "p", "horizon": 1000, "steps": 2000, "search": {}, "ppo": {"gamma": 0.99}}
    )
    peer_config = {"problem": "p", "horizon": 1000, "steps": 2000, "settings": {"gamma": 0.995, "pop_size": 6}}
    for name, result in (("a", ours), ("b", sample_result(method="pgmorl", config=peer_config))):
        write_result(tmp_path / f"{name}.json", result)
    assert [group.label for group in make_groups(load_all([tmp_path]))] == ["ucb", "pgmorl"]
    assert "Training steps" not in comparison_table(make_sections(load_all([tmp_path]))[0]).note
    steps = {"training": 700, "evaluation": 300, "pretraining": 200}
    short = sample_result(method="pgmorl", config=peer_config | {"steps": 1500}, steps=steps)
    write_result(tmp_path / "b.json", short)
    (section,) = make_sections(load_all([tmp_path]))
    assert [group.label for group in section.groups] == ["ucb", "pgmorl"]
    assert comparison_table(section).note.endswith(" Training steps: ucb 2,000, pgmorl 900.")
