"""`ucb-moppo choose`: from options, in a terminal, and what it prints for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sample_runs import SampleRun
from trade_runs import train_trade

import ucb_moppo
from ucb_moppo.cli import main as cli
from ucb_moppo.cli.choosing import Interview
from ucb_moppo.decide.advice import Wishes
from ucb_moppo.store.decision import Decision

Capture = pytest.CaptureFixture[str]
# Rows 0 … 5, all on the front, but for row 3.
RETURNS = np.array([[[0.0, 1000], [40, 900], [70, 700]], [[10, 10], [90, 400], [100, 0]]])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SampleRun.showing(RETURNS / 2, RETURNS).write(tmp_path_factory.mktemp("runs") / "arc")


def chosen(run: Path, capsys: Capture, *options: str) -> dict:
    """What the command prints as JSON, without fresh episodes: this problem is on paper only."""
    cli.main(["choose", str(run), "--episodes", "0", "--json", *options])
    return json.loads(capsys.readouterr().out)


# --- from options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ([], 2),
        (["--knee"], 2),
        (["--most", "speed"], 5),
        (["--most", "speed", "--floor", "energy=500"], 2),
        (["--floor", "speed=80", "--ceiling", "speed=95"], 4),
        (["--aspire", "speed=95", "--aspire", "energy=500"], 4),
        (["--prefer", "5>0", "--prefer", "5 > 4"], 5),
        (["--prefer", "5<0", "--prefer", "1<0"], 0),
        (["--row", "1"], 1),
    ],
)
def test_options_choose(run: Path, capsys: Capture, options: list[str], row: int) -> None:
    assert chosen(run, capsys, *options)["row"] == row


def test_the_same_from_python(run: Path, capsys: Capture) -> None:
    told = chosen(run, capsys, "--floor", "speed=30", "--prefer", "4=1")
    decision = ucb_moppo.load(run).choose(floors={"speed": 30}, answers=[(4, 1, "same")])
    assert told == json.loads(json.dumps(decision.to_json())) | {"forecast": None, "saved": None}
    assert told["remaining"] == [1, 2, 4, 5]


def test_tables_for_the_eye(run: Path, capsys: Capture) -> None:
    cli.main(["choose", str(run), "--episodes", "0", "--knee"])
    shown = capsys.readouterr().out
    assert "short list, of 5 policies that remain" in shown
    assert "Row 2 (policy 0 under weight" in shown
    assert "Measured: speed 70, energy 700" in shown
    assert "Next to it on the front, 10 more speed costs 150 energy" in shown
    assert "--out policy.safetensors" in shown


def test_the_policy_is_saved(run: Path, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "fast.safetensors"
    assert chosen(run, capsys, "--most", "1", "--out", str(file))["saved"] == str(file)
    policy = ucb_moppo.load(file)
    np.testing.assert_array_equal(policy.expected_returns, [100, 0])


def test_fresh_episodes_are_told(capsys: Capture, tmp_path: Path) -> None:
    trade = train_trade(tmp_path / "trade")
    name = trade.spec.objectives[0]
    arguments = ["choose", str(trade.path), "--knee", "--floor", f"{name}=-99", "--episodes", "20"]
    cli.main([*arguments, "--json"])
    told = json.loads(capsys.readouterr().out)["forecast"]
    expected = trade.choose(knee=True, floors={name: -99}).forecast(20)
    assert told == json.loads(json.dumps(expected.to_json()))
    assert told["objectives"][name]["floor_holds"]["share"] == 1.0
    cli.main(arguments)
    shown = capsys.readouterr().out
    assert "What it will do: 20 fresh episodes" in shown
    assert f"{name} at least -99: holds in 100% of episodes (95% interval 84% to 100%)" in shown
    assert "ended early: 0% of episodes (95% interval 0% to 16%)" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--floor", "speed"], "--floor 'speed' is not of the form NAME=NUMBER, e.g. --floor speed=2000"),
        (["--ceiling", "speed=fast"], "--ceiling 'speed=fast' is not of the form NAME=NUMBER"),
        (["--floor", "comfort=1"], "there is no objective 'comfort'"),
        (["--prefer", "a>b"], "--prefer 'a>b' is not of the form 'A>B'"),
        (["--prefer", "3>1"], "row 3 is not on the front; its rows are 0, 1, 2, 4, 5"),
        (["--row", "3"], "row 3 is not on the front"),
        (["--knee", "--most", "speed"], "the knee and the most of one choose differently"),
        (["--floor", "speed=95", "--floor", "energy=500"], "without speed at least 95, 3 would remain"),
    ],
)
def test_bad_options(run: Path, capsys: Capture, options: list[str], words: str) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["choose", str(run), *options])
    assert end.value.code == 2
    assert words in capsys.readouterr().err


# --- in a terminal -----------------------------------------------------------------------------------------


def interview(run: Path, *typed: str) -> tuple[Decision, str]:
    """The decision after somebody typed these lines and then nothing more, and all that was shown."""
    lines: Iterator[str] = iter(typed)
    shown = StringIO()

    def ask(prompt: str) -> str:
        shown.write(prompt)
        line = next(lines, None)
        if line is None:
            raise EOFError
        return line

    console = Console(file=shown, width=200)
    return Interview(ucb_moppo.load(run), Wishes(), console, ask).hold(), shown.getvalue()


def test_bounds_as_they_are_typed(run: Path) -> None:
    decision, shown = interview(
        run, "speed >= 40", "energy>500", "speed", "comfort >= 1", "speed >= 1,000", "clear", "speed<=90", "", "k"
    )
    counts = [line for line in shown.splitlines() if line.endswith("remain")]
    told = ["5 of 5", "4 of 5", "2 of 5", "5 of 5", "4 of 5"]
    assert [count.split(": ")[-1] for count in counts] == [f"{count} policies remain" for count in told]
    assert "'speed' is no bound; type an objective, >= or <=, and a number" in shown
    assert "there is no objective 'comfort'" in shown
    assert "no policy holds all of it: without speed at least 1,000, 3 would remain" in shown
    assert decision.wishes == Wishes(ceilings={"speed": 90.0}, knee=True)


def test_questions_with_undo_and_no_difference(run: Path) -> None:
    decision, shown = interview(run, "", "q", "a", "u", "b", "n", "what", "s", "2")
    first = ucb_moppo.load(run).choose().question
    assert [answer.said for answer in decision.wishes.answers] == ["second", "same"]
    assert decision.wishes.answers[0][:2] == first
    asked = [line for line in shown.splitlines() if "Question" in line]
    assert [line.split()[1] for line in asked] == list("121233")
    assert decision.row == decision.shortlist[1]
    assert "B against A:" in shown


def test_enter_alone_goes_through(run: Path) -> None:
    decision, _ = interview(run)
    assert decision.row == ucb_moppo.load(run).choose().row


@pytest.mark.parametrize(
    ("typed", "wishes"),
    [
        (["", "m", "energy", "1"], Wishes(most="energy")),
        (["", "x", "m", "comfort", "m", "speed", "9", "1"], Wishes(most="speed")),
        (["", "a", "80", "", "1"], Wishes(aspirations={"speed": 80.0})),
        (["", "a", "", "", "k", "1"], Wishes(knee=True)),
    ],
)
def test_other_ways_to_choose(run: Path, typed: list[str], wishes: Wishes) -> None:
    decision, _ = interview(run, *typed)
    assert decision.wishes == wishes
    assert decision.row == decision.shortlist[0]


def test_a_terminal_is_asked_and_a_pipe_is_not(run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or "")
    cli.main(["choose", str(run), "--episodes", "0"])
    assert asked == []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    cli.main(["choose", str(run), "--episodes", "0", "--no-questions"])
    assert asked == []
    cli.main(["choose", str(run), "--episodes", "0"])
    assert len(asked) == 4
    capsys.readouterr()
