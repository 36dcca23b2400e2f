"""``run.choose``: the decision about a run on disk, with numbers that follow by hand."""

import json

import gymnasium
import numpy as np
import pytest
from sample_runs import SampleRun, rewrite
from trade_runs import train_trade

import ucb_moppo
from ucb_moppo.decide.bounds import Bounds
from ucb_moppo.decide.forecast import make_forecast
from ucb_moppo.errors import ConfigError
from ucb_moppo.seeding import EVALUATION_SEED, FORECAST, episode_seed
from ucb_moppo.store.decision import read_outcomes
from ucb_moppo.training.forecast import run_policy

# Rows 0 … 3, of which the third is dominated.
RETURNS = np.array([[[10.0, 40.0], [20.0, 32.0]], [[15.0, 15.0], [40.0, 10.0]]])


@pytest.fixture
def run(tmp_path):
    return ucb_moppo.load(SampleRun.showing(RETURNS / 2, RETURNS).write(tmp_path / "run"))


def test_only_the_front_is_offered(run):
    outcomes = read_outcomes(run)
    assert outcomes.rows.tolist() == [0, 1, 3]
    assert outcomes.errors is None
    np.testing.assert_array_equal(outcomes.returns, [[10, 40], [20, 32], [40, 10]])


def test_standard_errors_are_read_where_there_are_any(run):
    lines = (run.path / "front.csv").read_text().splitlines()
    told = [f"{line},{'error_1,error_2' if i == 0 else f'{i}.5,0.25'}" for i, line in enumerate(lines)]
    rewrite(run.path, "front.csv", ("\n".join(told) + "\n").encode())
    np.testing.assert_array_equal(
        read_outcomes(ucb_moppo.load(run.path)).errors, [[1.5, 0.25], [2.5, 0.25], [4.5, 0.25]]
    )


def test_the_policy_is_that_row_under_its_own_weight(run):
    decision = run.choose(most="speed")
    assert decision.row == 3
    assert decision.returns == {"speed": 40.0, "energy": 10.0}
    np.testing.assert_array_equal(decision.policy.weight, run.evaluated().weights[3])
    assert decision.policy.index == 1


def test_bounds_knee_and_aspirations(run):
    assert run.choose(floors={"speed": 15}, ceilings={"speed": 30}).remaining == [1]
    # Scaled: (0, 1), (1/3, 11/15), (1, 0): beyond the line through the ends by 0, 1/15, 0.
    assert run.choose().row == 1
    assert run.choose(aspirations={"energy": 40}).row == 0
    with pytest.raises(ConfigError, match="without speed at least 35, 2 would remain"):
        run.choose(floors={"speed": 35, "energy": 20})


def test_questions_answers_undo_and_the_short_list(run):
    decision = run.choose()
    asked = decision.question
    assert set(asked) <= {0, 1, 3}
    after = decision.answer("first")
    assert after.wishes.answers == ((*asked, "first"),)
    assert after.undo().wishes == decision.wishes
    same = run.choose(answers=[(*asked, "first")])
    assert (same.row, same.question, same.shortlist) == (after.row, after.question, after.shortlist)
    assert sorted(decision.shortlist) == [0, 1, 3]
    assert decision.compare(0, 3) == "75% less speed, 300% more energy"
    assert decision.take(3).row == 3
    assert (decision.take(decision.row).reason, decision.take(3).reason) == (decision.reason, "you took it")
    with pytest.raises(ConfigError, match="row 2 is not on the front"):
        decision.take(2)


def test_exchange_rates(run):
    # From (20, 32): 20 more speed for 22 energy to one side, 8 more energy for 10 speed to the other.
    assert run.choose().exchange() == ["10 more speed costs 11 energy", "1 more energy costs 1.25 speed"]
    assert str(run.choose()).splitlines()[1] == "speed 20, energy 32"


def test_a_settled_choice_asks_nothing(run):
    decision = run.choose(floors={"speed": 30})
    assert decision.question is None
    with pytest.raises(ConfigError, match="there is no question to answer"):
        decision.answer("first")


def test_as_json(run):
    told = json.loads(json.dumps(run.choose(most="energy").to_json(), allow_nan=False))
    assert (told["row"], told["policy"], told["returns"]) == (0, 0, {"speed": 10.0, "energy": 40.0})
    assert told["shortlist"][0]["row"] == 0
    assert told["exchange"] == [{"row": 1, "more": "speed", "by": 10.0, "less": "energy", "price": 0.8}]


def play(policy, seed):
    """The return [2] of an episode of Trade, step by step as whoever deploys the policy would have it."""
    env, total = gymnasium.make("probe/Trade-v0"), np.zeros(2)
    observation, over = env.reset(seed=seed)[0], False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        total, over = total + reward, terminated or truncated
    return total


def test_the_forecast_is_what_deploying_it_brings(tmp_path):
    run = train_trade(tmp_path / "trade")
    played = [play(run.choose(most="1").policy, episode_seed(EVALUATION_SEED, FORECAST, e)) for e in range(7)]
    floor = np.sort(np.array(played)[:, 0])[2] - 1e-4  # which 5 of the 7 reach
    held = run.choose(most="1")
    forecast = make_forecast(
        run_policy(run, held.row, 7), run.spec.objectives, Bounds(np.array([floor, -np.inf]), np.full(2, np.inf))
    )
    assert forecast.floors[0].share == 5 / 7
    found = held.forecast(episodes=7)
    np.testing.assert_allclose(found.quantiles[2], np.median(played, axis=0), rtol=1e-4)
    np.testing.assert_allclose(found.worst, np.min(played, axis=0), rtol=1e-4)
    assert (found.episodes, found.ended_early.share, found.steps.tolist()) == (7, 0.0, [5.0] * 5)
