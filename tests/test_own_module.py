"""The examples of CONTRIBUTING.md, taken out of the page and trained with from a module outside the package."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import TINY, tiny_options

import ucb_moppo
from ucb_moppo.cli import main as cli
from ucb_moppo.errors import ConfigError
from ucb_moppo.registry import (
    ACQUISITIONS,
    EXECUTORS,
    INDICATORS,
    METHODS,
    SELECTIONS,
    SURROGATES,
    UTILITIES,
    is_target,
)
from ucb_moppo.store.run import Run

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
SMALL: dict[str, Any] = TINY | {"executor": "local"}


@pytest.fixture(autouse=True)
def my_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_lab.py").write_text("\n\n".join(blocks), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_lab", raising=False)


def test_a_problem_an_acquisition_a_surrogate_and_an_indicator_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        "--acquisition",
        "my_lab:Crowding",
        "--surrogate",
        "my_lab:LastChange",
        "--indicators",
        "my_lab:extent",
    ]
    options = tiny_options("my_lab:Valley-v0", executor="local")
    cli.main(["train", *options, *names, "--out", str(tmp_path / "run"), "--quiet", "--json"])
    summary = json.loads(capsys.readouterr().out)
    run = Run(tmp_path / "run")
    assert summary["finished"]
    assert run.config["search"]["acquisition"] == "my_lab:Crowding"
    # Every evaluation is measured; the last one as what it found says.
    returns = run.evaluated().returns
    assert summary["extra_indicators"]["my_lab:extent"] == pytest.approx((returns.max(0) - returns.min(0)).sum())
    assert all("my_lab:extent" in line["extra_indicators"] for line in run.metrics())
    # The surrogate's prediction is one number per objective, whatever the policy and the weight: the mean of what
    # the stage before changed, and how much that differed.
    *_, before, last = run.metrics()
    changed = np.array(before["surrogate"]["realised"]).reshape(-1, 2)
    for name, expected in (("predicted", changed.mean(axis=0)), ("sigma", changed.std(axis=0))):
        found = np.array(last["surrogate"][name])
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape))


def test_the_acquisition_is_what_chooses(tmp_path: Path) -> None:
    """Other scores, other weights: from the same start three acquisitions do not all choose alike."""
    # Every pick goes by the score; by default most environments are spread whatever it says.
    small = SMALL | {"steps": 480, "active": 4, "selection": "sequential"}
    chosen = {}
    for name in ("hypervolume", "expected_utility", "my_lab:Crowding"):
        run = ucb_moppo.train("my_lab:Valley-v0", acquisition=name, out=tmp_path / name[-8:], quiet=True, **small)
        chosen[name] = json.dumps([line["selected_weights"] for line in run.metrics()])
    assert len(set(chosen.values())) > 1
    assert chosen["my_lab:Crowding"] != chosen["hypervolume"]


def test_a_learner_in_python_and_on_the_command_line(tmp_path: Path) -> None:
    run = ucb_moppo.train(
        "my_lab:Valley-v0",
        method="my_lab:RandomSearch",
        out=tmp_path / "python",
        quiet=True,
        steps=1000,
        horizon=5,
        evaluations=2,
        policies=2,
        probes=3,
        scale=0.5,
    )
    assert [line["training_steps"] for line in run.metrics()] == [0, 500, 1000]
    assert run.summary["policies"] == 6  # one for each of 2 × 3 weights
    assert run.config["settings"] == {"scale": 0.5}
    assert run.policy([0.5, 0.5])([0.0]).shape == (1,)
    options = ["--steps", "1000", "--horizon", "5", "--evaluations", "2", "--policies", "2", "--probes", "3"]
    named = ["--method", "my_lab:RandomSearch", "--set", "scale=0.5", "--out", str(tmp_path / "shell"), "--quiet"]
    cli.main(["train", "my_lab:Valley-v0", *options, *named])
    assert (tmp_path / "shell" / "front.csv").read_bytes() == (run.path / "front.csv").read_bytes()


def test_a_utility_on_the_command_line(tmp_path: Path) -> None:
    options = [*tiny_options("my_lab:Valley-v0", executor="local"), "--out", str(tmp_path / "run"), "--quiet"]
    cli.main(["train", *options, "--utility", "my_lab:balanced", "--criterion", "esr"])
    run = Run(tmp_path / "run")
    preference = np.array([0.25, 0.75])
    by_hand = ((run.evaluated().returns + 200) ** preference).prod(axis=1)
    np.testing.assert_allclose(run.values(preference), by_hand)
    assert run.policy(preference).expected_returns.tolist() == run.evaluated().returns[by_hand.argmax()].tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"utility": "my_lab:balance"}, "there is no balance in the module my_lab"),
        ({"acquisition": "my_lab:Crowdign"}, "there is no Crowdign in the module my_lab"),
        ({"surrogate": "no_lab:Model"}, "surrogate no_lab:Model needs no_lab.*PYTHONPATH"),
        ({"acquisition": "hypervolum"}, "unknown acquisition 'hypervolum'; did you mean hypervolume.*module:name"),
        ({"indicators": ["exten"]}, "unknown indicator 'exten'"),
        ({"indicators": ["my_lab:exten"]}, "there is no exten in the module my_lab"),
        ({"indicators": ["hypervolume"]}, "'hypervolume' is recorded anyway"),
        ({"method": "no_lab:Learner"}, "method no_lab:Learner needs no_lab"),
    ],
)
def test_what_cannot_be_found_is_refused_before_anything_is_written(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    small = {"steps": 800} if "method" in settings else SMALL
    with pytest.raises(ConfigError, match=message):
        ucb_moppo.train("my_lab:Valley-v0", out=tmp_path / "run", quiet=True, **small, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "registry",
    [METHODS, ACQUISITIONS, SURROGATES, SELECTIONS, INDICATORS, UTILITIES, EXECUTORS],
    ids=lambda one: one.kind,
)
def test_every_name_leads_somewhere(registry: Any) -> None:
    for name, entry in registry.entries.items():
        assert is_target(entry.target), name
        assert entry.help, name
        if "morl_baselines" in entry.target or "cluster" in entry.target:
            continue  # optional parts, whose own tests find them
        assert registry.find(name) is not None, name


def test_a_fault_of_the_user_s_module_is_not_hidden(tmp_path: Path) -> None:
    """What it raises while it is imported is raised; what it lacks is named as what it imports."""
    (tmp_path / "broken_lab.py").write_text("import json\njson.no_such_name\nclass Score: ...")
    with pytest.raises(AttributeError, match="no_such_name"):
        ACQUISITIONS.find("broken_lab:Score")
    (tmp_path / "poor_lab.py").write_text("import no_such_package\nclass Score: ...")
    with pytest.raises(ConfigError, match=r"needs no_such_package.*the module poor_lab imports it"):
        ACQUISITIONS.find("poor_lab:Score")


def test_nothing_is_left_running_when_a_run_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should making the trainer fail after its workers were started, they are ended."""
    closed = []
    monkeypatch.setattr("ucb_moppo.runtime.executor.ShardedExecutor.close", lambda self: closed.append(self))
    monkeypatch.setattr("ucb_moppo.engine.trainer.make_method", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ucb_moppo.train("my_lab:Valley-v0", out=tmp_path / "run", quiet=True, **SMALL)
    assert len(closed) == 1
