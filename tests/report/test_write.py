"""The report as files: complete, self-contained, and naming what it shows."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from sample_runs import write_sample

from ucb_moppo.cli.main import main
from ucb_moppo.errors import ConfigError
from ucb_moppo.report import interactive
from ucb_moppo.report.curves import bands_picture, costs_picture, label_that_fits, short_count, spent_seconds
from ucb_moppo.report.data import load_all, load_data, make_sections
from ucb_moppo.report.fronts import front_picture, growth_limits, growth_picture, overlay_picture, spread
from ucb_moppo.report.style import MATPLOTLIB_SETTINGS
from ucb_moppo.report.weight_search import selection_counts, selection_picture, surrogate_picture
from ucb_moppo.training.interpolate import STUDY_COLUMNS, read_study

ONE_RUN = ("front", "indicators", "growth", "selection", "surrogate", "costs")


class Links(HTMLParser):
    """Everything a page would fetch."""

    def __init__(self, text):
        super().__init__()
        self.fetched = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.fetched += [found[name] for name in ("src", "srcset", "data", "poster") if found.get(name)]
        if tag == "link":
            self.fetched.append(found.get("href"))


def test_report_of_one_run(tmp_path, capsys):
    run = write_sample(tmp_path / "one", problem="Swimmer-v2", horizon=50)
    main(["report", str(run), "--out", str(tmp_path / "out")])
    page = (tmp_path / "out" / "index.html").read_text()
    assert capsys.readouterr().out.strip() == str(tmp_path / "out" / "index.html")
    assert all(link.startswith("data:") for link in Links(page).fetched)
    assert "@import" not in page
    for name in ONE_RUN:
        png, svg = (tmp_path / "out" / "figures" / f"{name}-one.{kind}" for kind in ("png", "svg"))
        assert png.read_bytes().startswith(b"\x89PNG")
        assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    for name in ("summary-one", "front-one", "paper-Swimmer-v2"):
        for kind in ("csv", "md", "tex"):
            assert (tmp_path / "out" / "tables" / f"{name}.{kind}").stat().st_size
    assert page.count("run one · seed 0 · 9,000 training steps") >= len(ONE_RUN)


def test_report_of_several_runs(tmp_path):
    paths = [str(write_sample(tmp_path / f"{m}0", method=m, num_stages=3)) for m in ("ucb", "random")]
    paths.append(str(write_sample(tmp_path / "three", num_objectives=3, num_stages=3)))
    with (tmp_path / "ucb0" / "interpolation.csv").open("w") as file:
        file.write(",".join(STUDY_COLUMNS) + "\n10,1,1,9,3,5,1\n20,2,1,4,6,10,1\n")
    main(["report", *paths, "--out", str(tmp_path / "out")])
    page = (tmp_path / "out" / "index.html").read_text()
    names = {path.stem for path in (tmp_path / "out" / "figures").glob("*.png")}
    assert {"bands-paper-problem-reference-point-0-0", "interpolation-ucb0", "front-three"} <= {
        re.sub(r"-protocol-\w+-horizon-\d+", "", name) for name in names
    }
    assert "has trained no surrogate" in page
    assert "Methods over all problems" in page
    assert (tmp_path / "out" / "tables" / "aggregate.tex").exists()
    if interactive.is_available():
        assert "scatter3d" in page


@pytest.mark.parametrize("num_objectives", [2, 3, 5])
def test_figures_name_their_runs_and_objectives(tmp_path, num_objectives):
    data = load_data(write_sample(tmp_path / "named", num_objectives=num_objectives, finished=False))
    for make in (front_picture, growth_picture, selection_picture, surrogate_picture, costs_picture):
        picture = make(data)
        assert picture.figure.get_supxlabel() == "run named · seed 0 · 9,000 training steps so far"
        assert picture.figure.get_supxlabel() in picture.caption
    texts = {text.get_text() for text in front_picture(data).figure.findobj(match=lambda a: hasattr(a, "get_text"))}
    assert set(data.objectives) <= texts


def test_growth_has_eight_panels_with_the_hypervolume_last(tmp_path):
    data = load_data(write_sample(tmp_path / "one", num_stages=20))
    *panels, colours = growth_picture(data).figure.axes
    assert colours.get_ylabel() == "weight of speed"
    assert len(panels) == 8
    assert panels[-1].get_title() == "hypervolume"
    assert [panel.get_title().split(",")[0] for panel in panels[:7]] == [
        f"stage {i}" for i in (0, 3, 6, 10, 13, 16, 19)
    ]


def test_growth_of_a_young_run_has_a_panel_per_evaluation_and_no_gaps(tmp_path):
    data = load_data(write_sample(tmp_path / "one", num_objectives=3, num_stages=3))
    *panels, colours = growth_picture(data).figure.axes
    assert [panel.get_title().split(",")[0] for panel in panels] == ["stage 0", "stage 1", "stage 2", "hypervolume"]
    assert colours.get_ylabel() == "height"


def test_growth_cuts_off_no_point_of_a_front(tmp_path):
    # 399 points around (10, 10) and one at (20, −500): less than a hundredth, but on the front.
    values = 10 + np.random.default_rng(0).random((2, 200, 2))
    values[0, 0] = 20, -500
    data = load_data(
        write_sample(tmp_path / "one", num_policies=2, probes=200, num_stages=2, returns=[values, values])
    )
    low, high = growth_limits(data)
    assert low[1] < -500
    assert high[0] > 20


def overlaps(figure):
    """Pairs of tick labels of a panel, and titles and legends of the figure, that are drawn over each other."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()

    def box(artist):
        return artist.get_window_extent(renderer)

    groups = [[text for text in axes.get_xticklabels() if text.get_text()] for axes in figure.axes]
    groups.append([figure._suptitle, figure._supxlabel, *figure.legends])
    pairs = [(a, b) for group in groups for a, b in combinations(group, 2)]
    return [(a, b) for a, b in pairs if box(a).overlaps(box(b))]


def test_no_words_lie_over_each_other(tmp_path):
    paths = [
        write_sample(
            tmp_path / f"{method}{seed}",
            problem="Swimmer-v2",
            method=method,
            seed=seed,
            horizon=horizon,
            num_stages=3,
        )
        for method in ("ucb", "random")
        for seed, horizon in ((0, 100), (1, 150))
    ]
    with matplotlib.rc_context(MATPLOTLIB_SETTINGS):
        for section in make_sections(load_all(paths)):
            assert len(section.title) > 40
            assert overlaps(overlay_picture(section).figure) == []
            assert overlaps(bands_picture(section).figure) == []


def test_ticks_of_predictions_have_room(tmp_path):
    path = write_sample(tmp_path / "one", num_stages=3)
    data = load_data(path)
    data.metrics[2]["surrogate"]["realised"] = (3000 * np.linspace(-1, 1, 24).reshape(3, 4, 2)).tolist()
    with matplotlib.rc_context(MATPLOTLIB_SETTINGS):
        assert overlaps(surrogate_picture(data).figure) == []


def test_bars_say_what_fits():
    assert label_that_fits(0.87, "5M steps") == "87%\n5M steps"
    assert label_that_fits(0.10, "727k steps") == "10%"
    assert label_that_fits(0.03, "1 s") == ""
    assert [short_count(x) for x in (727_223, 1_351_660, 5_000_000, 999)] == ["727k", "1.35M", "5M", "999"]


def test_spread_keeps_both_ends():
    assert spread(100, 3).tolist() == [0, 50, 99]
    assert spread(2, 7).tolist() == [0, 1]


def test_selection_counts_environments_near_each_weight(tmp_path):
    # Two policies with probes at w_1 = 0, ¼, … of their halves; all train on their first two candidates,
    # which are the nearest to the first probe of each.
    data = load_data(write_sample(tmp_path / "one", num_policies=2, probes=3))
    counts = selection_counts(data)
    assert counts.shape == (3, 6)
    np.testing.assert_array_equal(counts, [[2, 0, 0, 2, 0, 0]] * 3)


def test_surrogate_figure_shows_error_and_bonus(tmp_path):
    figure = surrogate_picture(load_data(write_sample(tmp_path / "one"))).figure
    error, no_change = figure.axes[1].get_lines()
    assert set(error.get_ydata()) == {1.0}
    assert set(no_change.get_ydata()) == {3.0}
    assert set(figure.axes[2].get_lines()[0].get_ydata()) == {0.25}


def test_time_is_shared_out(tmp_path):
    data = load_data(write_sample(tmp_path / "one"))
    assert spent_seconds(data) == {"training": 24.0, "evaluating": 12.0, "selecting": 4.0}


def test_interpolation_study_joins_the_run(tmp_path, capsys):
    run = write_sample(tmp_path / "one", problem="Swimmer-v2", num_policies=2, probes=2, horizon=5)
    main(["interpolate", str(run), "--weights", "2", "4", "--quiet"])
    study = read_study(run)
    assert study["weights_per_policy"].tolist() == [2, 4]
    assert study["evaluation_steps"].tolist() == [2 * 2 * 5, 2 * 4 * 5]
    assert (study["hypervolume"] >= 0).all()


def test_nothing_to_report(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["report"])
    assert stopped.value.code == 2
    assert "at least one run" in capsys.readouterr().err


def test_out_that_is_a_file(tmp_path):
    run = write_sample(tmp_path / "one")
    (tmp_path / "out").write_text("")
    from ucb_moppo.report import write_report

    with pytest.raises(ConfigError, match="is a file"):
        write_report([run], tmp_path / "out")
