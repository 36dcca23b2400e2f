"""Every control of the page "Which policy do I deploy?" in a real browser, and what stands there for whom."""

import re

import numpy as np
import pytest
from sample_runs import SampleRun

pytest.importorskip("dash", reason="the viewer is not installed: pip install 'ucb-moppo[viewer]'")

from served_page import served
from trade_runs import train_trade

import ucb_moppo
from ucb_moppo.report.cells import number as in_words
from ucb_moppo.report.load import load_data
from ucb_moppo.viewer.choice import choose


@pytest.fixture(scope="module")
def address(swimmer):
    with served(swimmer) as address:
        yield f"{address}/choose/"


@pytest.fixture(scope="module")
def swimmer(tmp_path_factory):
    """Three policies with four weights each, on an arc; episodes of 40 steps."""
    return SampleRun(problem="Swimmer-v2", horizon=40).write(tmp_path_factory.mktemp("runs") / "swimmer")


@pytest.fixture
def chooser(page, address):
    """The page, ready; it fails its test on anything that Dash complains of."""
    complaints = []
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.goto(address)
    page.wait_for_selector("#count")
    page.wait_for_selector("#front .main-svg")
    page.get_by_label("with videos").uncheck()  # rendering is tested where it is meant
    yield page
    assert complaints == []


def decision(swimmer, **wishes):
    return ucb_moppo.load(swimmer).choose(**wishes)


def names(swimmer):
    return ucb_moppo.load(swimmer).spec.objectives


def wait_for_count(page, count, total=12):
    page.wait_for_function(
        "words => document.querySelector('#count').innerText === words", arg=f"{count} of {total} policies remain"
    )


def wait_for_listed(page, expected):
    """Wait until the short list has these rows in this order, the first taken, with what each returns in words."""
    rows = [str(row) for row in expected.shortlist]
    page.wait_for_function(
        "rows => JSON.stringify(Array.from(document.querySelectorAll('#shortlist label')).map("
        "l => l.innerText.match(/Row (\\d+)/)[1])) === JSON.stringify(rows)",
        arg=rows,
    )
    listed = page.locator("#shortlist label").all_inner_texts()
    for place, (row, text) in enumerate(zip(expected.shortlist, listed, strict=True)):
        assert f"{place + 1}. Row {row}\n{expected.describe(row)}\n" in text
        for other, against in enumerate(expected.shortlist):
            assert against == row or f"against {other + 1}: {expected.compare(row, against)}" in text


def press(page, name):
    page.get_by_role("button", name=name).click()


def wait_for_question(page, number):
    page.wait_for_function(
        "start => document.querySelector('#question-words').innerText.startsWith(start)",
        arg=f"Question {number} of at most 10",
    )


def test_bounds_count_and_exclude_as_one_types(chooser, swimmer):
    first, second = names(swimmer)
    wait_for_count(chooser, 12)
    returns = ucb_moppo.load(swimmer).front().returns
    floor = float(np.sort(returns[:, 0])[5])
    chooser.get_by_label(f"{first}, at least").fill(f"{floor:.6f}"[:-2])
    wait_for_count(chooser, 7)
    wait_for_listed(chooser, decision(swimmer, floors={first: floor - 1e-3}))
    ceiling = float(np.sort(returns[:, 0])[8])
    chooser.get_by_label(f"{first}, at most").fill(f"{ceiling + 1e-3:.4f}")
    wait_for_count(chooser, 4)
    excluded = (
        "() => document.querySelector('#front .js-plotly-plot').data"
        ".find(trace => trace.name === 'excluded').text.length"
    )
    assert chooser.evaluate(excluded) == 8
    chooser.get_by_label(f"{second}, at least").fill("1000")
    chooser.get_by_role("alert").wait_for()
    assert f"without {second} at least 1,000, 4 would remain" in chooser.get_by_role("alert").inner_text()
    wait_for_count(chooser, 0)
    assert chooser.locator("#shortlist label").count() == 0
    assert (
        chooser.get_by_role("button", name="A is better").is_hidden()
        or not chooser.get_by_role("button", name="A is better").is_enabled()
    )
    chooser.get_by_label(f"{second}, at least").fill("much")
    chooser.wait_for_function("() => document.querySelector('#remaining').innerText.includes('is no number')")
    chooser.get_by_label(f"{second}, at least").fill("")
    chooser.get_by_label(f"{second}, at most").fill("0")
    chooser.wait_for_function("() => document.querySelector('#count')?.innerText.startsWith('0 of')")
    chooser.get_by_label(f"{second}, at most").fill("")
    wait_for_count(chooser, 4)


def test_ways_to_choose(chooser, swimmer):
    first, second = names(swimmer)
    chooser.get_by_label("The knee").check()
    wait_for_listed(chooser, decision(swimmer, knee=True))
    chooser.get_by_text("is the knee").first.wait_for()
    chooser.locator("#question-card").wait_for(state="hidden")
    chooser.get_by_label("The most of one objective").check()
    wait_for_listed(chooser, decision(swimmer, most=first))
    chooser.get_by_role("group", name="The most of").get_by_label(second).check()
    wait_for_listed(chooser, decision(swimmer, most=second))
    chooser.get_by_label("As close as can be").check()
    aims = chooser.get_by_role("group", name="What you aspire to")
    aims.get_by_label(first).fill("90")
    wait_for_listed(chooser, decision(swimmer, aspirations={first: 90.0}))
    aims.get_by_label(second).fill("60")
    wait_for_listed(chooser, decision(swimmer, aspirations={first: 90.0, second: 60.0}))
    chooser.get_by_label("Ask me").check()
    wait_for_question(chooser, 1)
    wait_for_listed(chooser, decision(swimmer))


def test_questions_undo_no_difference_and_stop(chooser, swimmer):
    wait_for_question(chooser, 1)
    asked = decision(swimmer)
    for side, row in zip("AB", asked.question, strict=True):
        told = chooser.get_by_role("group", name=f"Policy {side}").inner_text()
        words = re.sub(r"\s+", " ", told)
        assert words.startswith(f"{side} {asked.describe(row).replace(', ', ' ')} against")
    assert not chooser.get_by_role("button", name="Undo").is_enabled()
    press(chooser, "B is better")
    wait_for_question(chooser, 2)
    after = asked.answer("second")
    wait_for_listed(chooser, after)
    press(chooser, "No difference")
    wait_for_question(chooser, 3)
    wait_for_listed(chooser, after.answer("same"))
    press(chooser, "Undo")
    wait_for_question(chooser, 2)
    wait_for_listed(chooser, after)
    press(chooser, "A is better")
    chooser.wait_for_function(
        "words => document.querySelector('#because').innerText.includes(words)", arg="your 2 answers told"
    )
    wait_for_listed(chooser, after.answer("first"))
    if chooser.get_by_role("button", name="Stop here").is_enabled():
        press(chooser, "Stop here")
        chooser.wait_for_function(
            "() => document.querySelector('#question-words').innerText === 'You stopped after 2 answers.'"
        )
        assert chooser.get_by_role("group", name="Policy A").is_hidden()
        press(chooser, "Go on asking")
        wait_for_question(chooser, 3)


def test_ten_questions_are_the_most(chooser):
    for number in range(1, 11):
        words = chooser.locator("#question-words")
        chooser.wait_for_function(
            "n => { const w = document.querySelector('#question-words').innerText;"
            " return w.startsWith(`Question ${n} `) || !w.startsWith('Question'); }",
            arg=number,
        )
        if not words.inner_text().startswith("Question"):
            break
        press(chooser, "No difference")
    chooser.wait_for_function(
        "() => /enough|Nothing more/.test(document.querySelector('#question-words').innerText)"
    )
    assert not chooser.get_by_role("button", name="A is better").is_enabled()
    assert chooser.locator("#shortlist label").count() == 3


def test_the_keyboard_is_enough(chooser, swimmer):
    wait_for_question(chooser, 1)
    chooser.get_by_label(f"{names(swimmer)[0]}, at least").focus()
    chooser.keyboard.type("1")
    chooser.keyboard.press("Tab")
    assert chooser.evaluate("document.activeElement.labels[0].innerText") == f"{names(swimmer)[0]}, at most"
    chooser.get_by_role("button", name="A is better").focus()
    chooser.keyboard.press("Enter")
    wait_for_question(chooser, 2)
    focused = chooser.evaluate("document.activeElement.id")
    assert focused == "say-first"  # the next answer is one key away
    chooser.keyboard.press("Tab")
    ring = chooser.evaluate("(s => [s.outlineStyle, s.outlineWidth])(getComputedStyle(document.activeElement))")
    assert ring == ["solid", "3px"]
    chooser.locator("#rule input").first.focus()
    chooser.keyboard.press("ArrowDown")
    chooser.wait_for_function("() => document.querySelector('#because').innerText.includes('is the knee')")


def test_videos_stand_side_by_side(chooser, swimmer):
    chooser.get_by_label("with videos").check()
    chooser.wait_for_function("() => document.querySelectorAll('.clip video').length === 2")
    chooser.wait_for_function(
        "() => Array.from(document.querySelectorAll('.clip video')).every(v => v.currentTime > 0.1 && !v.error)"
    )
    shown = [video.get_attribute("src") for video in chooser.locator(".clip video").all()]
    rows = [int(re.search(r"/video/main/(\d+)\?", source)[1]) for source in shown]
    assert rows == list(decision(swimmer).question)
    chooser.get_by_label("with videos").uncheck()
    chooser.wait_for_function("() => document.querySelectorAll('.clip video').length === 0")


def test_what_it_will_do_and_the_download(chooser, swimmer, tmp_path):
    first, _ = names(swimmer)
    expected = decision(swimmer, floors={first: 1.0})
    chooser.get_by_label(f"{first}, at least").fill("1")
    wait_for_listed(chooser, expected)
    second = expected.take(expected.shortlist[1])
    chooser.locator("#shortlist input").nth(1).check()
    chooser.wait_for_function(
        "row => document.querySelector('#exchange').innerText.includes(`--row ${row} `)", arg=second.row
    )
    assert chooser.locator("#rates li").all_inner_texts() == second.exchange()
    press(chooser, "Run 100 fresh episodes")
    chooser.wait_for_selector("#chances")
    forecast = second.forecast(100)
    share = f"{forecast.floors[0].share:.0%}"
    told = chooser.locator("#chances li").all_inner_texts()
    assert told[0].startswith(f"{first} at least 1: holds in {share} of episodes")
    assert told[1].startswith("ended early: 0% of episodes")
    assert not chooser.get_by_role("button", name="Run 100 fresh episodes").is_enabled()
    with chooser.expect_download() as download:
        chooser.get_by_role("link", name="Download this policy").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    policy = ucb_moppo.load(file)
    np.testing.assert_array_equal(policy.weight, second.policy.weight)
    assert policy.index == second.policy.index


def test_pages_lead_to_each_other_and_everything_has_a_name(chooser):
    unnamed = chooser.evaluate(
        "() => Array.from(document.querySelectorAll('input, button, a[href], section, [role=group]'))"
        ".filter(e => !(e.innerText || e.getAttribute('aria-label') || (e.labels && e.labels.length)"
        " || e.getAttribute('data-title') || e.closest('.modebar'))).map(e => e.outerHTML)"
    )
    assert unnamed == []
    assert chooser.evaluate("document.documentElement.lang") == "en"
    spoken = {"remaining", "question-words", "because", "forecast"}
    live = chooser.evaluate("() => Array.from(document.querySelectorAll('[aria-live]')).map(e => e.id)")
    assert spoken <= set(live)
    chooser.get_by_role("link", name="Explore the front").click()
    chooser.wait_for_selector("#picked-policy")
    chooser.get_by_role("link", name="Which policy do I deploy?").click()
    chooser.wait_for_selector("#count")


def test_three_and_five_objectives(page, tmp_path):
    for num_objectives in (3, 5):
        run = SampleRun(num_objectives=num_objectives, num_policies=4, num_stages=2).write(
            tmp_path / f"of{num_objectives}"
        )
        with served(run) as address:
            page.goto(f"{address}/choose/")
            page.get_by_label("with videos").uncheck()
            page.wait_for_selector("#count")
            wait_for_listed(page, decision(run))
            assert page.locator(".bounds input").count() == 2 * num_objectives


def test_a_run_with_floors_is_explored_and_chosen_from(page, tmp_path):
    """Both pages of a run that was trained for a utility that is no weighted sum go by that utility."""
    run = train_trade(tmp_path / "floors", steps=800, utility="floors", floors=("1=2",), floor_penalty=10.0)
    data = load_data(run.path)
    picked = choose(data, np.array([0.5, 0.5]))
    worth = float(data.goal.values(data.outcomes, np.array([[0.5, 0.5]]))[picked.row])
    with served(run.path) as address:
        page.goto(address)
        page.wait_for_selector("#front .main-svg")
        page.wait_for_selector("#picked-policy")
        assert "utility floors" in page.locator("body").inner_text()
        told = page.locator("#picked").inner_text()
        assert f"Policy {picked.policy} under weight" in told
        assert f"utility {in_words(worth)}" in told
        page.get_by_role("link", name="Which policy do I deploy?").click()
        page.get_by_label("with videos").uncheck()
        page.wait_for_selector("#count")
        wait_for_listed(page, decision(run.path))
        page.get_by_label("The most of one objective").check()
        wait_for_listed(page, decision(run.path, most=run.spec.objectives[0]))
