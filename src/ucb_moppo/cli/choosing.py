"""`ucb-moppo choose`: wishes from options or asked for in a terminal, and the decision for the eye."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ucb_moppo.cli.display import StandardOutput, plain
from ucb_moppo.cli.options import Choose
from ucb_moppo.decide.advice import Wishes, advise, describe_remaining
from ucb_moppo.decide.forecast import Forecast, describe_chances
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.preferences import Answer
from ucb_moppo.decide.questions import MAX_QUESTIONS
from ucb_moppo.decide.words import in_short
from ucb_moppo.errors import ConfigError, UcbMoppoError
from ucb_moppo.objectives.names import find_objective
from ucb_moppo.store.decision import Decision, decide, read_outcomes
from ucb_moppo.store.run import Run, load_run

PREFERENCE = re.compile(r"\s*(\d+)\s*([<>=])\s*(\d+)\s*")
SAID = {">": "first", "<": "second", "=": "same"}
BOUND = re.compile(r"\s*(.+?)\s*(>=|<=|>|<)\s*(\S+)\s*")
KEYS = {"a": "first", "b": "second", "n": "same"}

AskFunction = Callable[[str], str]
"""Shows a prompt and gives what was typed."""


def run_choice(choice: Choose) -> None:
    """Decide as the options say, or as whoever sits at the terminal does, and print it."""
    run, console, asked = load_run(choice.run), StandardOutput(), is_asked_for(choice)
    wishes = read_wishes(choice)
    decision = Interview(run, wishes, console, input).hold() if asked else make_decision(run, wishes, choice.row)
    forecast = decision.forecast(choice.episodes, choice.threads) if choice.episodes else None
    saved = None if choice.out is None else str(decision.policy.export(choice.out))
    if choice.json:
        found = {"forecast": None if forecast is None else forecast.to_json(), "saved": saved}
        print(json.dumps(decision.to_json() | found, indent=2))
        return
    if not asked:
        console.print(shortlist_on_terminal(decision))
    print_decision(decision, forecast, console)
    print(f"saved: {saved}" if saved else "To deploy it, write it with --out policy.safetensors or policy.onnx.")


# --- wishes from options -----------------------------------------------------------------------------------


def read_wishes(choice: Choose) -> Wishes:
    """What the options of `choose` say."""
    return Wishes(
        floors=read_amounts("--floor", choice.floor),
        ceilings=read_amounts("--ceiling", choice.ceiling),
        aspirations=read_amounts("--aspire", choice.aspire),
        knee=choice.knee,
        most=choice.most or "",
        answers=tuple(read_preference(text) for text in choice.prefer),
    )


def read_amounts(option: str, pairs: Sequence[str]) -> dict[str, float]:
    """NAME=VALUE pairs as numbers by name."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        try:
            found[name.strip()] = float(value.replace(",", ""))
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise ConfigError(f"{option} {pair!r} is not of the form NAME=NUMBER, e.g. {option} speed=2000")
    return found


def read_preference(text: str) -> Answer:
    """A > B, A < B or A = B about two rows."""
    found = PREFERENCE.fullmatch(text)
    if found is None:
        raise ConfigError(f"--prefer {text!r} is not of the form 'A>B', 'A<B' or 'A=B' with rows, e.g. '3>12'")
    return Answer(int(found[1]), int(found[3]), SAID[found[2]])


def is_asked_for(choice: Choose) -> bool:
    """Whether to ask in a terminal: there is one, and the options leave something to ask."""
    told = choice.knee or choice.most or choice.aspire or choice.prefer or choice.row is not None
    return not (told or choice.json or choice.no_questions) and sys.stdin.isatty() and sys.stdout.isatty()


def make_decision(run: Run, wishes: Wishes, row: int | None) -> Decision:
    """What follows from wishes, unless a row is named outright."""
    decision = decide(run, wishes)
    return decision if row is None else decision.take(row)


# --- wishes asked for --------------------------------------------------------------------------------------


class Interview:
    """Asks somebody in a terminal what must hold, then how to choose, until one policy is left."""

    def __init__(self, run: Run, wishes: Wishes, console: Console, ask: AskFunction) -> None:
        self.run, self.wishes, self.console, self._ask = run, wishes, console, ask
        self.outcomes = read_outcomes(run)

    def hold(self) -> Decision:
        """The decision at the end of it."""
        self.console.print(ranges_on_terminal(self.outcomes))
        self.ask_bounds()
        self.ask_rule()
        return self.ask_shortlist(decide(self.run, self.wishes))

    def ask(self, prompt: str) -> str:
        """What was typed; nothing where input has ended, which takes what is offered."""
        try:
            return self._ask(prompt).strip()
        except EOFError:
            return ""

    def say(self, words: str) -> None:
        self.console.print(plain(words))

    def ask_bounds(self) -> None:
        """Floors and ceilings, one after the other, with how many policies each leaves."""
        example = self.outcomes.objectives[0]
        self.say(f"What must hold? For example: {example} >= {in_short(self.outcomes.returns[:, 0].mean())}")
        self.say(describe_remaining(advise(self.outcomes, self.wishes)))
        while typed := self.ask("a bound, `clear`, or Enter to go on: "):
            try:
                self._bound(typed)
            except UcbMoppoError as fault:
                self.say(str(fault))

    def _bound(self, typed: str) -> None:
        wishes = replace(self.wishes, floors={}, ceilings={}) if typed == "clear" else self._with_bound(typed)
        advice = advise(self.outcomes, wishes)
        if advice.chosen is None:
            raise ConfigError(f"{advice.reason}. It is left out")
        self.wishes = wishes
        self.say(describe_remaining(advice))

    def _with_bound(self, typed: str) -> Wishes:
        found = BOUND.fullmatch(typed)
        if found is None:
            raise ConfigError(f"{typed!r} is no bound; type an objective, >= or <=, and a number")
        name = self.outcomes.objectives[find_objective(found[1], self.outcomes.objectives)]
        amount = read_amounts("a bound", [f"{name}={found[3]}"])
        if found[2].startswith(">"):
            return replace(self.wishes, floors={**self.wishes.floors, **amount})
        return replace(self.wishes, ceilings={**self.wishes.ceilings, **amount})

    def ask_rule(self) -> None:
        """How to choose among what is left."""
        self.say("How to choose? q: questions (A or B), k: the knee, a: aspirations, m: the most of one objective")
        while True:
            typed = self.ask("q, k, a or m [q]: ").lower() or "q"
            try:
                if typed in RULES:
                    return RULES[typed](self)
                self.say(f"{typed!r} is none of q, k, a and m")
            except UcbMoppoError as fault:
                self.say(str(fault))

    def take_knee(self) -> None:
        self.wishes = replace(self.wishes, knee=True)

    def ask_most(self) -> None:
        name = self.ask(f"the most of ({', '.join(self.outcomes.objectives)}): ")
        find_objective(name, self.outcomes.objectives)
        self.wishes = replace(self.wishes, most=name)

    def ask_aspirations(self) -> None:
        typed = {name: self.ask(f"{name}, about (Enter: no matter): ") for name in self.outcomes.objectives}
        aims = read_amounts("aspire", [f"{name}={value}" for name, value in typed.items() if value])
        if not aims:
            raise ConfigError("aspire to something in at least one objective")
        self.wishes = replace(self.wishes, aspirations=aims)

    def ask_questions(self) -> None:
        """A or B, at most ten times."""
        while True:
            decision = decide(self.run, self.wishes)
            if decision.question is None:
                self.say("Nothing more is worth asking.")
                return
            typed = self._ask_about(decision, *decision.question)
            if typed in KEYS:
                self.wishes = self.wishes.answer(*decision.question, KEYS[typed])
            elif typed == "u":
                self.wishes = self.wishes.undo()
            elif typed in ("s", ""):
                return

    def _ask_about(self, decision: Decision, first: int, second: int) -> str:
        count = len(self.wishes.answers)
        self.console.print()
        self.say(f"Question {count + 1} of at most {MAX_QUESTIONS}: A or B?")
        self.say(f"  A  {decision.describe(first)}   (row {first})")
        self.say(f"  B  {decision.describe(second)}   (row {second})")
        self.say(f"     B against A: {decision.compare(second, first)}")
        return self.ask("a, b, n (no difference), u (undo), s (stop): ").lower()

    def ask_shortlist(self, decision: Decision) -> Decision:
        """Which of the three."""
        self.console.print(shortlist_on_terminal(decision))
        rows = decision.shortlist
        while len(rows) > 1:
            typed = self.ask(f"which one, 1 to {len(rows)} [1]: ") or "1"
            if typed.isdecimal() and 1 <= int(typed) <= len(rows):
                return decision.take(rows[int(typed) - 1])
            self.say(f"{typed!r} is none of them")
        return decision


RULES: dict[str, Callable[[Interview], None]] = {
    "q": Interview.ask_questions,
    "k": Interview.take_knee,
    "a": Interview.ask_aspirations,
    "m": Interview.ask_most,
}


# --- for the eye -------------------------------------------------------------------------------------------


def ranges_on_terminal(outcomes: Outcomes) -> Table:
    """What each objective can have on the front."""
    table = Table(
        "objective", "worst", "best", title=f"{len(outcomes)} policies on the front", title_justify="left"
    )
    for name, low, high in zip(outcomes.objectives, outcomes.worst, outcomes.best, strict=True):
        table.add_row(plain(name), in_short(low), in_short(high))
    return table


def shortlist_on_terminal(decision: Decision) -> Table:
    """The chosen policy and up to two others, with what each gives up against the others."""
    rows = decision.shortlist
    names = decision.advice.outcomes.objectives
    title = f"short list, of {len(decision.remaining)} policies that remain"
    heads: list[Column | str] = ["", "row", *(Column(plain(name)) for name in names), "against the others"]
    table = Table(*heads, title=title, title_justify="left")
    for number, row in enumerate(rows, start=1):
        told = decision.take(row).returns.values()
        against = [f"{rows.index(o) + 1}: {decision.compare(row, o)}" for o in rows if o != row]
        table.add_row(str(number), str(row), *map(in_short, told), plain_lines(against))
    return table


def plain_lines(lines: Sequence[str]) -> Text:
    """Lines of a cell, as they are."""
    return Text("\n").join(map(plain, lines))


def print_decision(decision: Decision, forecast: Forecast | None, console: Console) -> None:
    """Which policy, why, what it costs to have more, and what it will do."""
    policy = decision.policy
    weight = ", ".join(f"{x:.3f}" for x in policy.weight)
    console.print(plain(f"Row {decision.row} (policy {policy.index} under weight {weight}): {decision.reason}."))
    console.print(plain(f"Measured: {decision.describe(decision.row)}"))
    for words in decision.exchange():
        console.print(plain(f"Next to it on the front, {words}"))
    if forecast is not None:
        console.print(forecast_on_terminal(forecast))
        for words in describe_chances(forecast, decision.advice.bounds):
            console.print(plain(words))


def forecast_on_terminal(forecast: Forecast) -> Table:
    """Quantiles of the episodes, and the worst of them."""
    heads = ("worst 5%", "5%", "25%", "median", "75%", "95%", "mean")
    title = f"What it will do: {forecast.episodes} fresh episodes"
    columns = [Column(head, justify="right") for head in heads]
    table = Table("objective", *columns, title=title, title_justify="left")
    for j, name in enumerate(forecast.objectives):
        numbers = [forecast.worst[j], *forecast.quantiles[:, j], forecast.mean[j]]
        table.add_row(plain(name), *map(in_short, numbers))
    return table
