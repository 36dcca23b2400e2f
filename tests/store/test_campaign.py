"""The short version of the campaigns in benchmarks/trust_kills.py and benchmarks/trust_mutations.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trust_campaign
import trust_kills
import trust_mutations
import trust_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and kills processes")


def test_mutated_runs_are_read_or_refused(tmp_path: Path) -> None:
    """Twenty of ten thousand: nothing untyped, nothing wrong, nothing that hangs, within 1 GiB."""
    out = tmp_path / "found.json"
    options = ("--mutations", "20", "--seed", "1", "--out", str(out))
    # In a process that holds nothing else: its children begin with what it has.
    command = [sys.executable, trust_mutations.__file__, *options]
    # Where no script finds its neighbours, too.
    places = filter(None, [str(Path(trust_mutations.__file__).parent), os.environ.get("PYTHONPATH")])
    beside = {"PYTHONPATH": os.pathsep.join(places)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | beside)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(out.read_bytes())
    assert found["done"] == 20
    assert (found["untyped"], found["wrong"], found["hangs"], found["victims_changed"]) == ([], [], [], 0)


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def note(base: Path, place: Path, seed: int, numbers: range, expected: str) -> list[dict[str, Any]]:
        tried.extend(numbers)
        outcome = {"outcomes": [("load", "fine"), ("show", "Traceback: oh")], "megabytes": 7, "seconds": 1.0}
        return [{"number": number, "mutation": "none", "victim_intact": True, **outcome} for number in numbers]

    monkeypatch.setattr(trust_mutations, "try_some", note)
    monkeypatch.setattr(trust_mutations, "make_base", lambda path: path)
    monkeypatch.setattr(trust_mutations, "warm_up", lambda base, place: "")
    trust_mutations.run_campaign(3, 0, tmp_path / "out.json", 60)
    found = trust_mutations.run_campaign(5, 0, tmp_path / "out.json", 60)
    assert tried == [0, 1, 2, 3, 4]
    assert found["outcomes"] == {"load fine": 5, "show untyped": 5}
    assert len(found["untyped"]) == 5
    assert found["peak_megabytes"] == 7


def test_a_campaign_goes_on_until_its_code_is_another(tmp_path: Path) -> None:
    """A commit of something else, the notes themselves for example, begins no new campaign."""

    def git(*words: str) -> str:
        names = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *names, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(name: str, words: str) -> str:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(words)
        git("add", ".")
        git("commit", "-m", "more")
        return git("rev-parse", "HEAD")

    git("init")
    first, noted, other = commit("src/a.py", "1"), commit("notes.json", "{}"), commit("src/a.py", "2")
    assert trust_campaign.is_same_code(first, noted, tmp_path)
    assert trust_campaign.is_same_code(f"{first}-dirty", f"{first}-dirty", tmp_path)
    assert not trust_campaign.is_same_code(noted, other, tmp_path)
    assert not trust_campaign.is_same_code(f"{first}-dirty", noted, tmp_path)
    assert not trust_campaign.is_same_code("ucb-moppo 0.1", noted, tmp_path)


def test_a_reader_that_waits_for_ever_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the seconds it may idle, not those that others take on a busy machine; what came before it counts."""

    def sleep_in_second(path: Path) -> None:
        time.sleep(600 if path.name == "second" else 0)

    monkeypatch.setattr(trust_mutations, "READERS", {"load": lambda path: None, "show": sleep_in_second})
    monkeypatch.setattr(trust_mutations, "PATIENCE", 1.0)
    runs = [(tmp_path / name, None) for name in ("first", "second", "third")]
    found = trust_mutations.read_apart(runs)
    outcomes = [outcomes for outcomes, *_ in found]
    assert outcomes == [[("load", "fine"), ("show", "fine")], [("load", "fine"), ("show", "hang")]]
    assert found[1][2] < 1
    again = trust_mutations.read_apart(runs[len(found) :])
    assert [outcomes for outcomes, *_ in again] == [[("load", "fine"), ("show", "fine")]]


def test_a_plan_has_every_way_to_kill() -> None:
    plan = trust_kills.plan(36, seed=0)
    ways = {(kind, *(how[name] for name in ("signal", "group", "read"))) for kind, how, _ in plan}
    assert len(ways) == 36
    assert all(0 <= share <= 1.05 for *_, share in plan)


def test_figures_of_kills_by_hand() -> None:
    kill = {"signal": "SIGTERM", "ended_before": False, "exit_code": 143, "differs": []}
    kills = [kill | {"iterations_lost": lost, "seconds_to_stop": lost / 2} for lost in (3.0, 1.0, 2.0)]
    found = trust_kills.summarise([*kills, kill | {"ended_before": True, "differs": ["front.csv"]}])
    assert (found["kills"], found["byte_equal"]) == (4, 3)
    assert found["SIGTERM"] == {
        **{"kills": 3, "exit_codes": [143], "iterations_lost_median": 2.0, "iterations_lost_most": 3.0},
        **{"seconds_to_stop_median": 1.0, "seconds_to_stop_most": 1.5},
    }


def test_work_lost_is_at_most_what_was_left() -> None:
    """Two seconds at half a second each are four iterations, but after the 22nd of 24 only two were left."""
    whole = {"seconds_per_iteration": 0.5, "iterations": 24}
    assert [trust_kills.count_lost(2.0, saved, whole) for saved in (10, 22, 24)] == [4.0, 2.0, 0.0]


def test_one_kill_in_the_middle_is_made_good() -> None:
    with trust_kills.Place() as place:
        whole = trust_kills.train_whole("ucb local", place)
        how = {"signal": trust_kills.signal.SIGKILL, "group": True, "read": False}
        found = trust_kills.kill_and_resume("ucb local", how, 0.8 * whole["processor_seconds"], place, whole)
    assert found["differs"] == []


def test_tables_by_hand() -> None:
    facts = {"command": "python it.py", "seed": 0, "commit": "0123456789abcdef"}
    kill = {"signal": "SIGKILL", "ended_before": False, "exit_code": -9, "differs": [], "seconds_to_stop": 0.5}
    kills = [kill | {"iterations_lost": 2.0}, kill | {"iterations_lost": None, "differs": ["front.csv"]}]
    shown = trust_table.kills_table(facts | {"kills": [*kills, kill | {"ended_before": True}]})
    assert shown.startswith("3 kills (`python it.py`, seed 0, commit 012345678):")
    assert "| SIGKILL | 2 | 1 | -9 | 2.0, at most 2.0 | 0.5, at most 0.5 |" in shown
    assert "| SIGTERM | 0 | 0 |  | – | – |" in shown
    figures = {"victims_changed": 0, "peak_megabytes": 321, "most_processor_seconds": 4.5}
    counts = {"load fine": 3, "load refused": 1, "view hang": 1}
    shown = trust_table.mutations_table(facts | figures | {"done": 4, "outcomes": counts})
    assert "| load | 3 | 1 | 0 | 0 | 0 | 0 |" in shown
    assert "| view | 0 | 0 | 0 | 1 | 0 | 0 |" in shown
    assert "at most 321 MiB, and all readers of a directory at most 4.5 s of processor time" in shown
