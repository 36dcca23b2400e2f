"""The real page in a real browser: sliders, numbers, video, download, history and the keyboard."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from sample_runs import SampleRun, rewrite

pytest.importorskip("dash", reason="the viewer is not installed: pip install 'ucb-moppo[viewer]'")

from served_page import served

import ucb_moppo
from ucb_moppo.report.cells import number

SWIMMER = SampleRun(problem="Swimmer-v2", horizon=40)


@pytest.fixture(scope="module")
def swimmer(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "swimmer"
    return SWIMMER.write(path)


def chosen_marker(page):
    """Coordinates of the highlighted point in the first panel of the plot."""
    return page.evaluate(
        "() => { const t = document.querySelector('#front .js-plotly-plot').data.find(t => t.name === 'chosen');"
        " const first = v => Array.from(v._inputArray || v)[0]; return [first(t.x), first(t.y)]; }"
    )


def expected_choice(run, preference):
    """What the run's own files say a preference picks: policy and returns."""
    rows = (run / "front.csv").read_text().splitlines()[1:]
    table = np.array([[float(x) for x in row.split(",")[:-1]] for row in rows])
    m = len(preference)
    returns = table[:, 1 + m : 1 + 2 * m]
    best = int(np.argmax(returns @ np.asarray(preference)))
    return int(table[best, 0]), returns[best]


def open_page(page, address):
    page.goto(address)
    page.wait_for_selector("#picked-policy")
    page.wait_for_selector("#front .main-svg")


def set_slider(page, label, value):
    page.get_by_role("slider", name=label).fill(str(value))


def wait_for_choice(page, run, preference):
    """Wait until the page shows what the files say, in its words, its table and its plot."""
    policy, returns = expected_choice(run, preference)
    page.wait_for_function(
        "([policy, first]) => document.querySelector('#picked-policy')?.innerText === policy"
        " && document.querySelector('#picked tbody td.number')?.innerText === first",
        arg=[f"Policy {policy}", number(returns[0])],
    )
    shown = page.locator("#picked tbody td.number").all_inner_texts()
    assert shown[: len(returns)] == [number(x) for x in returns]
    if len(returns) < 4:
        np.testing.assert_allclose(chosen_marker(page), returns[:2], rtol=1e-6)


def test_the_slider_picks_what_the_files_say(page, swimmer):
    with served(swimmer) as address:
        open_page(page, address)
        wait_for_choice(page, swimmer, [0.5, 0.5])
        before = chosen_marker(page)
        set_slider(page, "forward speed", 0.9)
        wait_for_choice(page, swimmer, [0.9, 0.1])
        assert chosen_marker(page) != before
        assert float(page.get_by_role("slider", name="energy").input_value()) == pytest.approx(0.1)
        assert re.search(r"\d% (more|less) forward speed, \S+% (more|less) energy", page.inner_text("#picked"))


def test_the_keyboard_moves_the_slider(page, swimmer):
    with served(swimmer) as address:
        open_page(page, address)
        slider = page.get_by_role("slider", name="forward speed")
        slider.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.querySelector('.slider output').innerText === '50.3%'")
        page.keyboard.press("End")
        wait_for_choice(page, swimmer, [1.0, 0.0])
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.type") == "range"
        ring = page.evaluate("(s => [s.outlineStyle, s.outlineWidth])(getComputedStyle(document.activeElement))")
        assert ring == ["solid", "3px"]  # one can see where the keyboard is


def test_video_is_rendered_shown_and_played(page, swimmer):
    with served(swimmer) as address:
        open_page(page, address)
        page.get_by_role("button", name="Render the video").click()
        page.wait_for_selector("progress")
        page.wait_for_selector("video")
        page.wait_for_function("() => document.querySelector('video').currentTime > 0.2")
        assert page.evaluate("document.querySelector('video').error") is None
        assert page.evaluate("document.querySelector('video').videoWidth") == 480
    assert list((swimmer / "videos").glob("*.mp4"))


def test_the_downloaded_policy_is_the_picked_one(page, swimmer, tmp_path):
    with served(swimmer) as address:
        open_page(page, address)
        set_slider(page, "energy", 0.8)
        wait_for_choice(page, swimmer, [0.2, 0.8])
        with page.expect_download() as download:
            page.get_by_role("link", name="Download this policy").click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
    policy, returns = expected_choice(swimmer, [0.2, 0.8])
    loaded = ucb_moppo.load(file)
    assert loaded.index == policy
    np.testing.assert_array_equal(loaded.expected_returns, returns)


def test_history_shows_how_the_front_grew(page, swimmer):
    with served(swimmer) as address:
        open_page(page, address)
        page.wait_for_selector("#history .main-svg")
        page.get_by_role("slider", name="training stage").fill("1")
        page.wait_for_function(
            "() => document.querySelector('.scrubber output').innerText.startsWith('stage 1 of 3')"
        )
        # After stage 1 of 3 the arc's radius was 100 · (½ + ½ · ⅓).
        page.wait_for_function(
            "() => { const plot = document.querySelector('#history .js-plotly-plot');"
            " const t = plot.data.find(t => t.name === 'then');"
            " const list = v => Array.from(v._inputArray || v);"
            " return Math.abs(Math.hypot(list(t.x)[0], list(t.y)[0]) - 200 / 3) < 0.01; }"
        )


@pytest.mark.parametrize("num_objectives", [3, 5])
def test_more_objectives(page, tmp_path, num_objectives):
    run = SampleRun(num_objectives=num_objectives, num_policies=4, num_stages=3).write(tmp_path / "many")
    with served(run) as address:
        open_page(page, address)
        set_slider(page, "energy", 0.7)
        rest = 0.3 / (num_objectives - 1)
        wait_for_choice(page, run, [rest, 0.7, *[rest] * (num_objectives - 2)])
        shares = [float(s.input_value()) for s in page.locator(".slider input").all()]
        assert sum(shares) == pytest.approx(1, abs=0.003)


def test_nine_objectives_are_seen_as_lines_or_by_pairs(page, tmp_path):
    run = SampleRun(num_objectives=9, num_policies=9, num_stages=3).write(tmp_path / "nine")
    kinds = "document.querySelector('#front .js-plotly-plot').data.map(t => t.type)"
    with served(run) as address:
        open_page(page, address)
        assert set(page.evaluate(kinds)) == {"scatter"}
        page.get_by_label("every pair of objectives").check()
        page.wait_for_function(f"() => {kinds}[0] === 'splom'")
        page.wait_for_function("() => document.querySelector('#front .infolayer').textContent.includes('safety')")


def test_every_axis_of_nine_has_its_name_and_no_two_lie_over_each_other(page, tmp_path):
    """With limits of −12,345.6 … 0 words in a usual size would be turned, and the last one would be left out."""
    returns = 12345.6 * (np.eye(9) - 1)[None]
    run = SampleRun.showing(returns, returns).write(tmp_path / "nine")
    boxes = (
        "id => Array.from(document.querySelectorAll(`#${id} .xtick text`)).map(e => [e, e.getBoundingClientRect()])"
        ".map(([e, b]) => [getComputedStyle(e).display, e.textContent, b.left, b.right])"
    )
    with served(run) as address:
        open_page(page, address)
        page.wait_for_selector("#history .main-svg")
        for graph in ("front", "history"):
            page.wait_for_function(f"() => ({boxes})('{graph}').length === 9")
            shown, words, left, right = zip(*page.evaluate(boxes, graph), strict=True)
            assert "none" not in shown
            assert words[8] == "beauty-1.235e+04 …0"
            assert all(one < other for one, other in zip(right, left[1:], strict=False))
            assert right[8] <= page.evaluate(f"document.getElementById('{graph}').getBoundingClientRect().right")


def test_a_second_run_is_laid_over(page, swimmer, tmp_path):
    other = replace(SWIMMER, radius=120.0).write(tmp_path / "other")
    with served(swimmer, other) as address:
        open_page(page, address)
        page.wait_for_function("() => document.querySelector('#status').innerText.includes('compared with other')")
        names = page.evaluate("document.querySelector('#front .js-plotly-plot').data.map(t => t.name)")
        assert {"front of other", "best of other"} <= set(names)
        _, theirs = expected_choice(other, [0.5, 0.5])
        assert page.locator("#picked tbody td.number").all_inner_texts()[1] == number(theirs[0])


def test_a_run_that_trains_on_is_followed(page, tmp_path):
    run = tmp_path / "live"
    whole = SampleRun(finished=False).write(tmp_path / "whole")
    run.mkdir()
    for name in ("config.json", "policies.json"):
        shutil.copy(whole / name, run)
    known = json.loads((whole / "manifest.json").read_text())
    known["files"] = {name: known["files"][name] for name in ("config.json", "policies.json")}
    (run / "manifest.json").write_text(json.dumps(known))
    with served(run) as address:
        page.goto(address)
        page.get_by_role("alert").wait_for()
        assert "has not reached its first evaluation" in page.get_by_role("alert").inner_text()
        for file in whole.iterdir():
            shutil.copy(file, run)
        page.wait_for_selector("#picked-policy")
        summary = json.loads((run / "summary.json").read_text())
        rewrite(run, "summary.json", json.dumps(summary | {"training_steps": 123_456, "finished": True}).encode())
        page.wait_for_function(
            "() => document.querySelector('#status')?.innerText.includes('123,456 training steps')"
        )
        assert "finished" in page.inner_text("#status")


def test_a_run_that_breaks_gets_a_message(page, tmp_path):
    run = SampleRun().write(tmp_path / "breaking")
    with served(run) as address:
        open_page(page, address)
        (run / "front.csv").write_text("nonsense\n1\n")
        page.get_by_role("alert").wait_for()
        assert "Traceback" not in page.inner_text("main")


def test_everything_has_a_name(page, swimmer):
    with served(swimmer) as address:
        open_page(page, address)
        unnamed = page.evaluate(
            "() => Array.from(document.querySelectorAll('input, button, a[href], section')).filter(e => !("
            "e.innerText || e.getAttribute('aria-label') || (e.labels && e.labels.length)"
            " || e.getAttribute('data-title') || e.closest('.modebar'))).map(e => e.outerHTML)"
        )
        assert unnamed == []
        assert page.evaluate("document.documentElement.lang") == "en"
