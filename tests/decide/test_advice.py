"""Wishes and what follows from them: the logic that the command line, the page and Python share."""

import re

import numpy as np
import pytest

from ucb_moppo.decide.advice import Wishes, advise, describe_remaining
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.questions import MAX_QUESTIONS
from ucb_moppo.errors import ConfigError

RETURNS = np.array([[0.0, 1000], [40, 900], [70, 700], [90, 400], [100, 0]])
ARC = Outcomes(("speed", "energy"), RETURNS, np.array([10, 11, 12, 13, 14]))


@pytest.mark.parametrize(
    ("wishes", "row", "reason"),
    [
        (Wishes(), 12, "is the knee"),
        (Wishes(knee=True), 12, "is the knee"),
        (Wishes(most="speed"), 14, "has the most speed"),
        (Wishes(most="energy", floors={"speed": 30}), 11, "has the most energy"),
        (Wishes(aspirations={"speed": 95, "energy": 500}), 13, r"aspire to \(speed 95, energy 500\)"),
        (Wishes(floors={"speed": 80}, ceilings={"speed": 95}), 13, "is the knee"),
        (Wishes().answer(14, 10, "first").answer(14, 13, "first"), 14, "your 2 answers told"),
        (Wishes().answer(14, 10, "second").answer(11, 10, "second"), 10, "your 2 answers told"),
        (Wishes(knee=True).answer(14, 10, "first"), 12, "is the knee"),
    ],
)
def test_what_serves_which_wishes(wishes, row, reason):
    advice = advise(ARC, wishes)
    assert ARC.rows[advice.chosen] == row
    assert re.search(reason, advice.reason)
    assert advice.shortlist[0] == advice.chosen


def test_the_short_list_keeps_to_the_bounds():
    advice = advise(ARC, Wishes(floors={"energy": 500}))
    assert set(advice.shortlist) <= {0, 1, 2}
    assert describe_remaining(advice) == "3 of 5 policies remain"


def test_nothing_left_says_what_to_give_up():
    advice = advise(ARC, Wishes(floors={"speed": 95, "energy": 500}))
    assert advice.chosen is None
    assert advice.shortlist == []
    assert advice.question() is None
    assert describe_remaining(advice) == "0 of 5 policies remain"
    # Short by: 95/100, 55/100, 25/100, 5/100 + 100/1000, 500/1000.
    assert advice.reason == (
        "no policy holds all of it: without speed at least 95, 3 would remain; "
        "without energy at least 500, 1 would remain. Row 13 misses by least: speed 90, energy 400"
    )


def test_undo_is_as_if_never_said():
    wishes = Wishes().answer(14, 10, "first")
    again = wishes.answer(13, 11, "second").undo()
    assert again == wishes
    one, other = advise(ARC, wishes), advise(ARC, again)
    np.testing.assert_array_equal(one.belief.weights, other.belief.weights)
    assert one.question() == other.question()
    assert Wishes().undo() == Wishes()


def test_ten_questions_are_enough():
    wishes = Wishes()
    for _ in range(MAX_QUESTIONS):
        wishes = wishes.answer(10, 14, "same")
    assert advise(ARC, wishes).question() is None
    assert advise(ARC, wishes.undo()).num_answers == MAX_QUESTIONS - 1


def test_answers_tell_a_preference_for_returns_as_they_are():
    # On the scale of the front both count alike; energies are ten times as large.
    advice = advise(ARC, Wishes())
    first, second = advice.preference
    scaled_first, scaled_second = advice.belief.mean
    assert first / second == pytest.approx(10 * scaled_first / scaled_second)
    assert advice.preference.sum() == pytest.approx(1)


def test_regret_shrinks_with_answers():
    before = advise(ARC, Wishes().answer(14, 10, "same"))
    after = advise(ARC, Wishes().answer(14, 10, "same").answer(12, 10, "first").answer(12, 14, "first"))
    assert after.regret < before.regret


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (Wishes(knee=True, most="speed"), "the knee and the most of one choose differently"),
        (
            Wishes(answers=Wishes().answer(99, 10, "first").answers),
            "row 99 is not on the front; its rows are 10, 11",
        ),
        (Wishes(floors={"comfort": 1}), "no objective 'comfort'"),
        (Wishes(most="comfort"), "no objective 'comfort'"),
    ],
)
def test_wishes_that_cannot_be_met(wishes, words):
    with pytest.raises(ConfigError, match=words):
        advise(ARC, wishes)


def test_an_answer_is_one_of_three():
    with pytest.raises(ConfigError, match="the answer is 'maybe'; choose one of first, second, same"):
        Wishes().answer(1, 2, "maybe")


def test_one_policy_is_the_answer():
    alone = Outcomes(("speed", "energy"), np.array([[3.0, 4.0]]), np.array([5]))
    advice = advise(alone, Wishes())
    assert (advice.chosen, advice.shortlist, advice.question()) == (0, [0], None)
    assert describe_remaining(advice) == "1 of 1 policy remains"
