"""What the page "Which policy do I deploy?" makes of what it is sent, and episodes in a process of their own."""

import json
import resource

import numpy as np
import pytest
from sample_runs import SampleRun

pytest.importorskip("dash", reason="the viewer is not installed: pip install 'ucb-moppo[viewer]'")

from dash.exceptions import PreventUpdate

from ucb_moppo.decide.advice import Wishes, advise
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.errors import ConfigError
from ucb_moppo.viewer import chooser_layout as layout
from ucb_moppo.viewer.chooser import Said, to_answers, to_wishes
from ucb_moppo.viewer.forecaster import Forecaster, Told, main, parse_told, run_apart, to_progress

FRONT = Outcomes(
    ("speed", "energy"), np.array([[0.0, 1000], [40, 900], [70, 700], [90, 400], [100, 0]]), np.arange(10, 15)
)
NOTHING = Said((None, ""), (None, " "), "questions", (None, None), 0, [])


@pytest.mark.parametrize(
    ("changes", "wishes"),
    [
        ({}, Wishes()),
        ({"floors": ("1,000", None)}, Wishes(floors={"speed": 1000.0})),
        ({"ceilings": ("", "-2.5")}, Wishes(ceilings={"energy": -2.5})),
        ({"rule": "knee", "answers": [[10, 11, "first"]]}, Wishes(knee=True)),
        ({"rule": "most", "most": 1}, Wishes(most="energy")),
        ({"rule": "aspirations", "aspirations": ("3", "")}, Wishes(aspirations={"speed": 3.0})),
        ({"rule": "aspirations"}, Wishes(knee=True)),  # until something is aspired to
        ({"answers": [[10, 11, "same"]]}, Wishes().answer(10, 11, "same")),
        ({"rule": "nonsense", "most": 7}, Wishes()),
    ],
)
def test_what_is_said_as_wishes(changes, wishes):
    assert to_wishes(NOTHING._replace(**changes), FRONT) == wishes


def test_what_is_no_number_is_said():
    with pytest.raises(ConfigError, match="energy, at least: 'much' is no number"):
        to_wishes(NOTHING._replace(floors=("1", "much")), FRONT)


def test_answers_about_policies_that_are_gone_are_dropped():
    told = [[10, 11, "first"], [10, 99, "first"], [10, 12, "perhaps"]]
    assert [a.second for a in to_answers(told, FRONT)] == [11]
    with pytest.raises(PreventUpdate):
        to_answers([[1, 2]], FRONT)


def test_words_of_the_page():
    advice = advise(FRONT, Wishes(floors={"energy": 500}).answer(10, 12, "second"))
    assert layout.question_words(advice, None, stopped=True) == "You stopped after 1 answer."
    assert layout.question_words(advice, None, stopped=False) == "Nothing more is worth asking, after 1 answer."
    question = advice.question()
    assert layout.question_words(advice, question, False).startswith("Question 2 of at most 10")
    first = layout.shortlist_options(advice)[0]
    assert first["value"] == FRONT.rows[advice.chosen]
    lines = first["label"].splitlines()
    assert lines[0] == f"1. Row {first['value']}"
    assert lines[1].startswith("speed ")
    assert len(lines) == 1 + len(advice.shortlist)


@pytest.mark.parametrize("num_objectives", [2, 3, 5])
def test_the_plot_for_any_number_of_objectives(num_objectives):
    points = np.random.default_rng(0).dirichlet(np.ones(num_objectives), 12) ** 0.5
    names = ("speed", "energy", "height", "comfort", "price")[:num_objectives]
    advice = advise(
        Outcomes(names, points, np.arange(12)), Wishes(floors={"speed": float(np.median(points[:, 0]))})
    )
    figure = layout.front_figure(advice, advice.question())
    shown = {trace.name: trace for trace in figure.data}
    assert set(shown) == {"excluded", "remaining", "short list", "chosen"}
    if num_objectives < 4:
        assert len(shown["remaining"].x) == 6
        panels = num_objectives * (num_objectives - 1) // 2
        assert len([a for a in figure.layout.annotations if a.text == "<b>A</b>"]) == panels
        assert len(figure.layout.shapes) == num_objectives - 1  # the floor, in each panel with speed


# --- episodes ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swimmer(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "swimmer"
    return SampleRun(problem="Swimmer-v2", num_policies=2, probes=3, horizon=12).write(path)


def test_episodes_apart_are_those_of_the_library(swimmer):
    from ucb_moppo.store.run import Run
    from ucb_moppo.training.forecast import run_policy

    found = run_apart(swimmer, 4, count=3)
    expected = run_policy(Run(swimmer), 4, 3)
    np.testing.assert_array_equal(found.episodes.returns, expected.returns)
    np.testing.assert_array_equal(found.episodes.steps, [12, 12, 12])
    assert not found.episodes.ended_early.any()


def test_a_row_that_is_not_there_says_so(swimmer, capsys):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    main([str(swimmer), "99", "3"])
    told = parse_told(capsys.readouterr().out)
    assert told.error == "ConfigError: row 99 is not one of the 6 evaluated pairs"
    assert resource.getrlimit(resource.RLIMIT_DATA) == before  # of whoever only calls it
    assert to_progress(told).state == "failed"


def test_episodes_that_take_too_long_are_ended(swimmer):
    found = run_apart(swimmer, 4, seconds=0.01)
    assert found.state == "failed"
    assert found.error.startswith("the episodes stopped: ")


def test_what_an_environment_prints_is_no_forecast():
    assert parse_told("hello\n") is None
    pieces = Told(returns=[[1.0, 2.0]], steps=[], ended_early=[False])
    assert to_progress(pieces).error == "the episodes came in pieces"
    assert to_progress(parse_told(json.dumps({"returns": [[1, 2]], "steps": [3], "ended_early": [True]}))).episodes


def test_a_run_that_cannot_be_read_fails(swimmer, tmp_path):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(swimmer, broken)
    (broken / "policies.safetensors").write_bytes(b"nonsense")
    forecaster = Forecaster()
    forecaster.request(broken, 0)
    assert forecaster.progress(broken, 0).state == "failed"
    assert forecaster.progress(swimmer, 0).state == "missing"
