"""What Python and a notebook show of runs and policies, and the figure of a front."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure
from sample_runs import SampleRun, rewrite

from ucb_moppo.decide.bounds import Bounds
from ucb_moppo.decide.forecast import Episodes, make_forecast
from ucb_moppo.errors import RunFormatError
from ucb_moppo.store.front import Front
from ucb_moppo.store.layout import FRONT, MANIFEST, PROBLEM, STAGE, SUMMARY
from ucb_moppo.store.picture import shade_dominated
from ucb_moppo.store.run import Run

TWO_ENDS = np.array([[[1.0, 9.0]], [[9.0, 1.0]]])
"""Returns [2, 1, 2] of two policies: 8 more of the one costs 8 of the other."""
HOSTILE = "<img src=x onerror=alert(1)>$\\frac{1}{$\"'&"


class Reader(HTMLParser):
    """The tags of a page, and its words as a browser would show them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(SampleRun().write(tmp_path / "run"))


def with_names(run: Run, name: str) -> Run:
    """The same run with names of somebody else's choosing."""
    names = {"objectives": [name] * 2, "problem": name, "method": name}
    summary = json.loads((run.path / SUMMARY).read_text())
    rewrite(run.path, SUMMARY, json.dumps(summary | names).encode())
    return Run(run.path)


def test_a_run_is_shown_as_a_table_of_what_it_found(run: Run) -> None:
    shown, found = Reader(run._repr_html_()), run.summary
    rows = dict(zip(shown.words[1::2], shown.words[2::2], strict=True))
    assert shown.words[0] == f"Run {run.path}"
    assert rows["hypervolume"] == f"{found['hypervolume']:.4g}"
    assert rows["training steps"] == f"{found['training_steps']:,}"
    assert rows["problem"] == f"{found['problem']}: {', '.join(found['objectives'])}"
    assert rows["state"] == "finished"


def test_a_run_says_in_one_line_what_it_is_and_how_much_it_found(tmp_path: Path) -> None:
    values = np.array([[[1.0, 9.0], [4.0, 4.0]], [[3.0, 3.0], [9.0, 1.0]]])  # the third is dominated
    path = replace(SampleRun.showing(values), method="random", seed=7).write(tmp_path / "run")
    told = "problem='paper-problem', method='random', seed=7, policies=2, points=3"
    assert repr(Run(path)) == f"Run({str(path)!r}, {told})"


def test_a_decision_says_in_one_line_what_was_chosen_and_why(tmp_path: Path) -> None:
    decision = Run(SampleRun.showing(TWO_ENDS).write(tmp_path / "run")).choose(most="speed")
    expected = f"Decision({str(decision.run.path)!r}, row=1, returns=[9, 1], reason='has the most speed')"
    assert repr(decision) == expected
    shown = Reader(decision._repr_html_())
    rows = dict(zip(shown.words[1::2], shown.words[2::2], strict=True))
    assert shown.words[0] == "Row 1 has the most speed"
    # Its weight is the middle of its half of all weights.
    assert (rows["speed"], rows["energy"]) == ("9, weight 0.75", "1, weight 0.25")
    assert (rows["policy"], rows["within the bounds"]) == ("1", "2 of 2 policies remain")
    assert rows["short list"] == "row 1, row 0"
    assert rows["exchange"] == "1 more energy costs 1 speed"


def test_names_in_a_decision_are_words_and_nothing_else(tmp_path: Path) -> None:
    run = Run(SampleRun.showing(TWO_ENDS).write(tmp_path / "run"))
    problem = json.loads((run.path / PROBLEM).read_text())
    problem["spec"]["objectives"] = [HOSTILE, "energy"]
    rewrite(run.path, PROBLEM, json.dumps(problem).encode())
    shown = Reader(Run(run.path).choose(most="energy")._repr_html_())
    assert shown.tags == {"table", "caption", "tbody", "tr", "th", "td"}
    assert HOSTILE in shown.words


def test_names_are_words_and_nothing_else(run: Run) -> None:
    shown = Reader(with_names(run, HOSTILE)._repr_html_())
    assert shown.tags == {"table", "caption", "tbody", "tr", "th", "td"}
    assert f"{HOSTILE}: {HOSTILE}, {HOSTILE}" in shown.words


def test_a_run_without_an_evaluation_says_so(run: Run) -> None:
    manifest = json.loads((run.path / MANIFEST).read_text())
    for name in STAGE:
        del manifest["files"][name]
    (run.path / MANIFEST).write_text(json.dumps(manifest))
    begun = Run(run.path)
    assert "has not reached its first evaluation" in Reader(begun._repr_html_()).words[-1]
    assert repr(begun).startswith(f"Run({str(run.path)!r}), of which there is nothing to show: ")
    with pytest.raises(RunFormatError, match="has not reached its first evaluation"):
        begun.plot_front()


def test_a_summary_of_another_kind_is_no_error_of_the_notebook(run: Run) -> None:
    rewrite(run.path, SUMMARY, b'{"problem": 3}')
    assert "does not hold a whole summary" in Reader(Run(run.path)._repr_html_()).words[-1]


def test_a_policy_says_what_it_is_for_in_one_line(run: Run) -> None:
    policy = run.policy([0.7, 0.3])
    returns = ", ".join(f"{value:.4g}" for value in policy.expected_returns)
    name = policy.spec.name
    expected = f"Policy('{name}', index={policy.index}, weight=[0.7, 0.3], expected_returns=[{returns}])"
    assert repr(policy) == expected
    shown = Reader(policy._repr_html_())
    assert shown.words[0] == f"Policy {policy.index} for {name}"
    assert shown.words[1:3] == ["speed", f"{policy.expected_returns[0]:,.4g} expected, weight 0.7"]


def test_a_front_says_how_large_it_is_and_shows_rows_of_all_of_it() -> None:
    count = 40
    front = Front(np.arange(count) % 2, np.full((count, 2), 0.5), np.arange(2.0 * count).reshape(count, 2))
    assert repr(front) == "Front(40 points, 2 objectives)"
    shown = Reader(front._repr_html_())
    assert shown.words[0] == "40 points, 20 of them shown"
    assert shown.words[1:3] == ["0", "policy 0, weight [0.5, 0.5]: 0, 1"]
    assert shown.words[-2:] == ["39", "policy 1, weight [0.5, 0.5]: 78, 79"]
    assert repr(front.take(np.array([3]))) == "Front(1 point, 2 objectives)"
    assert Reader(front.take(np.zeros(0, int))._repr_html_()).words[0] == "0 points"


def test_a_forecast_says_what_to_expect() -> None:
    """Ten episodes of 0 to 9 and of 5, one of which ended early."""
    returns = np.stack([np.arange(10.0), np.full(10, 5.0)], axis=1)
    bounds = Bounds(np.array([4.0, -np.inf]), np.full(2, np.inf))
    forecast = make_forecast(Episodes(returns, np.full(10, 7), np.arange(10) == 3), ("speed", HOSTILE), bounds)
    assert repr(forecast) == f"Forecast(10 episodes: speed 4.5, {HOSTILE} 5)"
    shown = Reader(forecast._repr_html_())
    assert shown.tags == {"table", "caption", "tbody", "tr", "th", "td"}
    rows = dict(zip(shown.words[1::2], shown.words[2::2], strict=True))
    assert rows["speed"] == "4.5 on average, 90% of episodes from 0.45 to 8.55"
    assert rows["all bounds hold"] == "in 60% of episodes"
    assert rows["ended early"] == "10%"


def test_the_figure_has_every_point_of_the_front_and_its_names(run: Run) -> None:
    figure, front = with_names(run, HOSTILE).plot_front(), run.front()
    axes = figure.axes[0]
    everything, marks = axes.collections
    np.testing.assert_array_equal(marks.get_offsets(), front.returns)
    np.testing.assert_array_equal(marks.get_array(), front.weights[:, 0])
    np.testing.assert_array_equal(everything.get_offsets(), run.evaluated().returns)
    assert (axes.get_xlabel(), axes.get_ylabel()) == (HOSTILE, HOSTILE)
    # A $ stays a dollar also where the figure is drawn later: as mathematics this name would be an error.
    picture = matplotlib.image.imread(io.BytesIO(figure._repr_png_()))
    assert picture.shape[:2] == (690, 900)  # 4.6 by 6 inches of 150 dots
    assert re.search(r"HV [\d.e+]+, EU", figure.get_suptitle())


def test_what_was_measured_has_whiskers_of_its_standard_error(run: Run) -> None:
    """Rows 0 and 5 of the front were measured anew, to ± 1 and ± 2, ± 3 and ± 4; the others were not."""
    header, *rows = (run.path / FRONT).read_text().splitlines()
    assert np.isnan(run.front_errors()).all()
    assert len(run.plot_front().axes[0].containers) == 0
    errors = {0: ",1,2", 5: ",3,4"}
    lines = [header + ",error_1,error_2", *(row + errors.get(i, ",nan,nan") for i, row in enumerate(rows))]
    rewrite(run.path, FRONT, "\n".join([*lines, ""]).encode())
    measured, returns = Run(run.path), run.front().returns[[0, 5]]
    np.testing.assert_array_equal(measured.front_errors()[[0, 5]], [[1, 2], [3, 4]])
    [whiskers] = measured.plot_front().axes[0].containers
    across, up = (bars.get_segments() for bars in whiskers.lines[2])
    np.testing.assert_allclose(
        across, [[(x - e, y), (x + e, y)] for (x, y), e in zip(returns, (1, 3), strict=True)]
    )
    np.testing.assert_allclose(up, [[(x, y - e), (x, y + e)] for (x, y), e in zip(returns, (2, 4), strict=True)])


def test_who_was_chosen_and_then_measured_to_be_dominated_is_a_ring(tmp_path: Path) -> None:
    run = SampleRun.showing(np.array([[[1.0, 9.0], [4.0, 4.0], [9.0, 1.0]]])).write(tmp_path / "run")
    rewrite(run, FRONT, (run / FRONT).read_bytes().replace(b"4.0,4.0", b"4.0,0.5"))
    assert Run(run).confirmed().tolist() == [True, False, True]
    _, rings, marks = Run(run).plot_front().axes[0].collections
    np.testing.assert_array_equal(rings.get_offsets(), [[4.0, 0.5]])
    np.testing.assert_array_equal(marks.get_offsets(), [[1.0, 9.0], [9.0, 1.0]])


def test_where_a_preference_is_no_weighted_sum_all_that_were_chosen_stand(tmp_path: Path) -> None:
    run = SampleRun.showing(np.array([[[1.0, 9.0], [4.0, 4.0], [9.0, 1.0]]])).write(tmp_path / "run")
    rewrite(run, FRONT, (run / FRONT).read_bytes().replace(b"4.0,4.0", b"4.0,0.5"))
    rewrite(run, SUMMARY, (run / SUMMARY).read_bytes().replace(b'"problem"', b'"utility": "floors", "problem"', 1))
    assert Run(run).confirmed().all()


def test_what_a_front_covers_is_shaded_up_to_its_best(tmp_path: Path) -> None:
    """(2, 1) is no longer on the front once it is measured: (2, 2) covers it. Then come (1, 4) and (5, 0)."""
    axes = Figure().add_subplot(xlim=(0, 6), ylim=(-1, 5))
    shade_dominated(axes, np.array([[2.0, 2.0], [2.0, 1.0], [5.0, 0.0], [1.0, 4.0], [np.nan, 9.0]]))
    [shade] = axes.patches
    covered = [(0.9, 3.9), (1.9, 1.9), (4.9, -0.1), (0.1, -0.9)]
    beyond = [(1.1, 2.1), (2.1, 0.1), (0.5, 4.1), (5.1, -0.5)]
    assert shade.get_path().contains_points(covered).all()
    assert not shade.get_path().contains_points(beyond).any()


def test_three_objectives_have_a_panel_for_each_pair(tmp_path: Path) -> None:
    panels = Run(SampleRun(num_objectives=3).write(tmp_path / "run")).plot_front().axes[:3]
    shown = [(axes.get_xlabel(), axes.get_ylabel()) for axes in panels]
    assert shown == [("speed", "energy"), ("speed", "height"), ("energy", "height")]


def test_showing_a_run_loads_no_matplotlib(run: Run) -> None:
    code = f"import sys, ucb_moppo; ucb_moppo.load({str(run.path)!r})._repr_html_(); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'ucb_moppo.store.run'" in done.stdout
    assert "'matplotlib'" not in done.stdout
