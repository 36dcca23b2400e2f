"""How figures look: they name what they show, no words lie over each other, and no two methods look alike."""

from itertools import combinations

import matplotlib
import numpy as np
import pytest
from sample_results import write_results
from sample_runs import SampleRun

from ucb_moppo.errors import RunFormatError
from ucb_moppo.report import style
from ucb_moppo.report.curves import bands_picture, costs_picture
from ucb_moppo.report.fronts import front_picture, growth_picture, overlay_picture
from ucb_moppo.report.load import load_all, load_data
from ucb_moppo.report.sections import METHOD_ORDER, make_sections
from ucb_moppo.report.style import (
    MATPLOTLIB_SETTINGS,
    PALETTE,
    Picture,
    draw_picture,
    group_colours,
    new_figure,
    style_groups,
    weight_key,
    wrap_name,
)
from ucb_moppo.report.weight_search import selection_picture, surrogate_picture


@pytest.mark.parametrize("num_objectives", [2, 3, 5])
def test_figures_name_their_runs_and_objectives(tmp_path, num_objectives):
    data = load_data(SampleRun(num_objectives=num_objectives, finished=False).write(tmp_path / "named"))
    for make in (front_picture, growth_picture, selection_picture, surrogate_picture, costs_picture):
        picture = make(data)
        assert picture.figure.get_supxlabel() == "run named · seed 0 · 9,000 training steps so far"
        assert picture.figure.get_supxlabel() in picture.caption
    texts = {text.get_text() for text in front_picture(data).figure.findobj(match=lambda a: hasattr(a, "get_text"))}
    assert set(data.objectives) <= texts


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
        SampleRun(problem="Swimmer-v2", method=method, seed=seed, horizon=horizon, num_stages=3).write(
            tmp_path / f"{method}{seed}"
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
    path = SampleRun(num_stages=3).write(tmp_path / "one")
    data = load_data(path)
    data.metrics[2]["surrogate"]["realised"] = (3000 * np.linspace(-1, 1, 24).reshape(3, 4, 2)).tolist()
    with matplotlib.rc_context(MATPLOTLIB_SETTINGS):
        assert overlaps(surrogate_picture(data).figure) == []


def test_known_methods_have_their_own_colours():
    assert group_colours(METHOD_ORDER) == list(PALETTE)
    assert group_colours(["gpils", "ucb"]) == [PALETTE[7], PALETTE[0]]


def test_any_other_method_takes_a_colour_that_is_free():
    labels = ["ucb", "mean", "random", "fixed", "my_lab:Mine", "my_lab:Yours"]
    assert group_colours(labels)[:4] == list(PALETTE[:4])
    assert len(set(group_colours(labels))) == len(labels)
    # The place of ``ucb (gamma 0.5)`` would give it the fifth colour, which is PGMORL's.
    assert group_colours(["ucb (gamma 0.5)", "pgmorl"]) == [PALETTE[5], PALETTE[4]]


def test_more_methods_than_colours_differ_in_lines_and_markers(tmp_path):
    others = [f"my_lab:Method{i}" for i in range(4)]
    for method in (*METHOD_ORDER, *others):
        write_results(tmp_path, "Swimmer-v2", method, [10.0])
    (section,) = make_sections(load_all([tmp_path]))
    styled = style_groups(section)
    assert [group.label for group, _ in styled] == [*METHOD_ORDER, *others]
    assert [(one.line, one.marker) for _, one in styled] == [("-", "o")] * 8 + [("--", "s")] * 4
    assert len({one for _, one in styled}) == 12
    lines = bands_picture(section).figure.axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12
    marks = overlay_picture(section).figure.legends[0].legend_handles
    assert len({(mark.get_color(), mark.get_marker()) for mark in marks}) == 12


def test_a_ninth_method_of_ours_needs_no_ninth_colour(monkeypatch):
    monkeypatch.setattr(style, "METHOD_ORDER", (*METHOD_ORDER, "ninth"))
    assert group_colours(["ucb", "ninth"]) == [PALETTE[0], PALETTE[0]]


def test_numbers_that_cannot_be_drawn_are_refused_by_name():
    figure = new_figure(2, 2)
    axes = figure.subplots()
    axes.set(xlim=(0, 1))
    axes.text(1e35, 0.5, "far away")
    with pytest.raises(RunFormatError, match=r"the picture far cannot be drawn"):
        draw_picture(Picture("far", "", "", figure))


def test_names_are_wrapped_between_words_alone():
    assert wrap_name("carbohydrates") == "carbohydrates"
    assert wrap_name("forward speed of the body") == "forward\nspeed of the\nbody"
    assert wrap_name("incomprehensibilities saved", 16) == "incomprehensibilities\nsaved"


def test_the_key_of_weights_has_whole_words():
    axes = new_figure(3, 3).subplots()
    weight_key(axes, ["carbohydrates", "fats", "water"])
    assert [text.get_text() for text in axes.texts] == ["carbohydrates", "fats", "water", "dominated"]
