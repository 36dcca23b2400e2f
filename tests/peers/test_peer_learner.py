"""A peer as a learner: what is evaluated, counted, written and refused, with a stub that needs no extra."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stub_peer import NETWORK, StubPeer
from tiny_runs import timeless, train_tiny

import ucb_moppo
from ucb_moppo.bench.sweep_file import Cell, cell_config, check_cells, parse_sweep
from ucb_moppo.cli import main as cli
from ucb_moppo.config import (
    PeerConfig,
    default_settings,
    make_settings,
    override,
    published_settings,
    resolve,
)
from ucb_moppo.engine.probes import make_run_decomposition, probe_weights
from ucb_moppo.engine.trainer import make_schedule
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import ConfigError, Interrupted
from ucb_moppo.peers.base import Counts
from ucb_moppo.registry import METHODS, MethodEntry
from ucb_moppo.report.load import load_data
from ucb_moppo.store.run import Run
from ucb_moppo.training.reevaluate import evaluate_run


def make_entry(place: str) -> MethodEntry:
    return MethodEntry(place, "a stub", extra="peers", ours=False, published="stub_peer:published", resumable=False)


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS.entries, "stub", make_entry("stub_peer:StubPeer"))
    monkeypatch.setattr(StubPeer, "shown", None)
    monkeypatch.setattr(StubPeer, "after_steps", staticmethod(lambda counts: None))


def train_stub(path: Path, **settings: Any) -> Run:
    settings = {"horizon": 4, "steps": 100, "evaluations": 2, "episodes": 1, "held_out": 0} | settings
    return ucb_moppo.train("Swimmer-v2", method="stub", out=path, quiet=True, **settings)


def test_evaluations_are_evenly_spaced_and_the_budget_is_exact(tmp_path: Path) -> None:
    """Three evaluations over 100 steps in batches of 10: at 0, at the first 10 from 33 and 67 on, and at 100."""
    run = train_stub(tmp_path / "run", evaluations=3)
    assert [line["training_steps"] for line in run.metrics()] == [0, 40, 70, 100]
    assert run.summary["training_steps"] == 100
    assert run.summary["finished"] is True
    assert "stopped" not in run.summary


def test_all_steps_are_counted_by_what_they_were_for(tmp_path: Path) -> None:
    """30 of pre-training, 70 of training; 10 calls with one step of its own evaluation each; and ours: 2, 3 and 4
    policies, each on one weight for 4 steps of a Swimmer, who never falls."""
    summary = train_stub(tmp_path / "run", pretraining=30).summary
    assert (summary["training_steps"], summary["pretraining_steps"]) == (70, 30)
    assert summary["peer_evaluation_steps"] == 10
    assert summary["evaluation_steps"] == 10 + 4 * (2 + 3 + 4)
    assert load_data(tmp_path / "run").steps.tolist() == [0, 50, 100]


def test_a_growing_set_of_policies_is_kept_and_read(tmp_path: Path) -> None:
    run = train_stub(tmp_path / "run")
    assert run.summary["policies"] == 4
    assert run.summary["parameters"] == 28
    assert [len(one.policy) for one in load_data(run.path).history] == [2, 3, 4]
    assert run.network == NETWORK
    policy = run.policy([0.6, 0.4])
    action = policy(np.linspace(-1, 1, 8))
    # By hand: one relu layer, tanh, and the range of a Swimmer's torques is ±1.
    tensors = {name.removeprefix("actor."): a.astype(float) for name, a in policy.tensors.items()}
    hidden = np.maximum(0, np.linspace(-1, 1, 8) @ tensors["hidden1.kernel"] + tensors["hidden1.bias"])
    np.testing.assert_allclose(action, np.tanh(hidden @ tensors["head.kernel"] + tensors["head.bias"]), rtol=1e-5)
    saved = ucb_moppo.load(policy.save(tmp_path / "one.safetensors"))
    np.testing.assert_array_equal(saved(np.linspace(-1, 1, 8)), action)


def test_our_own_policies_get_the_same_bits_through_the_peers_path(tmp_path: Path, monkeypatch: Any) -> None:
    """A tiny run of ours has 2 policies with 2 probes; shown by a peer, as many returns come out, bit for bit."""
    ours = train_tiny(tmp_path / "ours", steps=160)
    everything = ours.evaluated()
    weights = everything.weights.reshape(2, 2, 2)
    monkeypatch.setattr(StubPeer, "shown", (ours.tensors(), weights))
    monkeypatch.setattr("ucb_moppo.peers.peer_learner.probe_weights", lambda division, num_objectives: weights)
    peer = train_stub(tmp_path / "peer", horizon=20)
    np.testing.assert_array_equal(peer.evaluated().returns, everything.returns)


def test_the_weights_and_the_number_of_evaluations_are_those_of_our_default_run(tmp_path: Path) -> None:
    spec = make_spec("HalfCheetah-v2")

    def resolved(**settings: int) -> PeerConfig:
        chosen = make_settings("HalfCheetah-v2", "stub", steps=2_500_000, **settings)
        config = resolve(chosen, spec)
        assert isinstance(config, PeerConfig)
        return config

    ours = resolve(override(default_settings("HalfCheetah-v2"), steps=2_500_000), spec)
    probes = probe_weights(resolved().division, 2)
    np.testing.assert_array_equal(probes, make_run_decomposition(ours, spec).probes)
    assert probes.shape == (4, 8, 2)  # two policies an objective, and what a fifth of 2.5M steps pays for
    assert (resolved().episodes, ours.episodes) == (2, 2)
    asked = probe_weights(resolved(policies=5, probes=8).division, 2)
    fewer = resolve(override(default_settings("HalfCheetah-v2"), steps=2_500_000, policies=5, probes=8), spec)
    np.testing.assert_array_equal(asked, make_run_decomposition(fewer, spec).probes)
    assert asked.shape == (5, 8, 2)
    stages = make_schedule(ours.boundaries, ours.search.warmup, ours.search.stage_iterations)
    assert resolved().evaluations == len(stages)


def test_wall_time_ends_a_run_cleanly(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        "ucb_moppo.training.stop.Deadline.passed", property(lambda self: StubPeer.looks[-1:] == [(50, 0, 5)])
    )
    run = train_stub(tmp_path / "run", max_seconds=1000.0)
    assert run.summary["stopped"] == "max_seconds"
    assert run.summary["finished"] is False
    # The evaluation at 50 steps, then the time is up at 60, and what there is then is evaluated too.
    assert [line["training_steps"] for line in run.metrics()] == [0, 50, 60]


def test_a_signal_ends_it_and_nothing_continues_it(tmp_path: Path, monkeypatch: Any) -> None:
    def interrupt(counts: Any) -> None:
        if counts.training == 60:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(StubPeer, "after_steps", staticmethod(interrupt))
    with pytest.raises(Interrupted, match="cannot be continued") as stopped:
        train_stub(tmp_path / "run")
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert Run(tmp_path / "run").summary["training_steps"] == 50
    with pytest.raises(ConfigError, match=r"a run of stub, which cannot be continued: train it again"):
        ucb_moppo.resume(tmp_path / "run", quiet=True)


@pytest.mark.parametrize("last", [60, 50, 100])
def test_a_peer_with_a_state_is_continued_exactly(tmp_path: Path, monkeypatch: Any, last: int) -> None:
    """Asked to stop between two evaluations, where one is due, or where only the last one is left to do: what is
    continued ends like a run left alone."""
    entry = replace(make_entry("stub_peer:ResumableStub"), resumable=True)
    monkeypatch.setitem(METHODS.entries, "stub", entry)
    whole = train_stub(tmp_path / "whole", pretraining=30, checkpoint_seconds=0.0)

    def interrupt(counts: Any) -> None:
        if counts.budgeted == last:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(StubPeer, "after_steps", staticmethod(interrupt))
        with pytest.raises(Interrupted, match=rf"stopped after iteration {last}; continue with `ucb-moppo resume"):
            train_stub(tmp_path / "run", pretraining=30, checkpoint_seconds=0.0)
    run = ucb_moppo.resume(tmp_path / "run", quiet=True)
    assert run.summary["finished"]
    assert timeless(run.summary) == timeless(whole.summary)
    assert list(map(timeless, run.metrics())) == list(map(timeless, whole.metrics()))
    for name in ("front.csv", "evaluations.csv", "policies.safetensors"):
        assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()
    before = {
        path: path.read_bytes()
        for path in run.path.glob("*.*")
        if path.suffix in (".csv", ".jsonl", ".safetensors")
    }
    ucb_moppo.resume(tmp_path / "run", quiet=True)  # there is nothing left to do
    assert {path: path.read_bytes() for path in before} == before


def test_settings_are_the_published_ones_under_those_given() -> None:
    assert published_settings("stub", "Ant-v2", {})["rate"] == 0.5
    assert published_settings("stub", "ucb_moppo/Swimmer-v2", {}) == {
        "batch": 10,
        "pretraining": 0,
        "rate": 0.25,
        "layers": (3,),
    }
    found = published_settings("stub", "Ant-v2", {"batch": 1e2, "rate": 1, "layers": [4, 5]})
    assert (found["batch"], found["rate"], found["layers"]) == (100, 1.0, (4, 5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bath": 5}, r"unknown setting 'bath' of stub; did you mean batch"),
        ({"batch": 2.5}, r"batch is 2.5; give a value like 10"),
        ({"batch": float("inf")}, r"batch is inf"),
        ({"batch": True}, r"batch is True"),
        ({"layers": 4}, r"layers is 4; give a value like \(3,\)"),
        ({"rate": "fast"}, r"rate is 'fast'"),
    ],
)
def test_a_wrong_setting_is_named_with_the_remedy(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train_stub(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


CANNOT_BE = [("steps", 0), ("horizon", 0), ("seed", -1), ("evaluations", 0), ("threads", -1)]


@pytest.mark.parametrize(("name", "value"), CANNOT_BE)
def test_a_run_that_cannot_be_is_refused(tmp_path: Path, name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"{name} is {value}"):
        train_stub(tmp_path / "run", **{name: value})


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(METHODS.entries, "stub", make_entry("no_such_package.peer:make"))
    with pytest.raises(ConfigError, match=r"needs no_such_package.*pip install 'ucb-moppo\[peers\]'"):
        train_stub(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_methods_are_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown method 'pgmorel'; did you mean pgmorl"):
        ucb_moppo.train("Swimmer-v2", method="pgmorel")


@pytest.mark.parametrize("held_out", [0, 3])
def test_evaluating_it_again_gives_the_same(tmp_path: Path, held_out: int) -> None:
    run = train_stub(tmp_path / "run", held_out=held_out)
    found = evaluate_run(run.path, None, out=tmp_path / "front.csv")
    assert found["hypervolume"] == run.summary["hypervolume"]
    assert (tmp_path / "front.csv").read_bytes() == (run.path / "front.csv").read_bytes()
    with pytest.raises(ConfigError, match="do not depend on a weight"):
        evaluate_run(run.path, 5, 1)
    with pytest.raises(ConfigError, match=r"\(stub\) come without a standard deviation.*--actions deterministic"):
        evaluate_run(run.path, None, 1, sampled=True)


def test_the_command_line(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    run = tmp_path / "run"
    options = ["--horizon", "4", "--steps", "60", "--evaluations", "1", "--out", str(run), "--quiet", "--json"]
    monkeypatch.setitem(METHODS.entries, "capql", METHODS.entries["stub"])
    cli.main(["train", "Swimmer-v2", "--method", "capql", "--set", "batch=20", "--set", "layers=[4,5]", *options])
    assert json.loads(capsys.readouterr().out)["training_steps"] == 60
    settings = Run(run).config["settings"]
    assert (settings["batch"], settings["layers"]) == (20, [4, 5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "batch"], "--set 'batch' is not of the form NAME=VALUE"),
        (["--set", "bach=3"], "did you mean batch"),
        ([], "name a problem to train on"),
    ],
)
def test_mistakes_on_the_command_line(options: list[str], message: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setitem(METHODS.entries, "capql", METHODS.entries["stub"])
    problem = ["Swimmer-v2"] if options else []
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", *problem, "--method=capql", *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_cell_of_a_sweep(tmp_path: Path) -> None:
    """Its settings are decided and checked beforehand, those of the run and those of the method alike."""
    config = cell_config(
        Cell("Swimmer-v2", "stub", 4, {"steps": 60, "horizon": 4, "batch": 20, "episodes": 1, "held_out": 0})
    )
    assert (config.seed, config.steps, config.horizon) == (4, 60, 4)
    assert config.settings == {"batch": 20, "pretraining": 0, "rate": 0.25, "layers": (3,)}
    run = train_stub(tmp_path / "run", seed=4, steps=60, batch=20, evaluations=None)
    assert run.config == json.loads(json.dumps(config.to_json()))
    with pytest.raises(ConfigError, match=r"cell Swimmer-v2/stub-seed4: unknown setting 'bach' of stub"):
        cell_config(Cell("Swimmer-v2", "stub", 4, {"bach": 20}))


SWEEP: dict[str, Any] = {"name": "x", "problems": ["Swimmer-v2"], "methods": ["ucb", "stub"], "seeds": [0]}


def test_a_preset_of_a_sweep_gives_a_peer_the_steps_and_weights_of_ours_and_nothing_else() -> None:
    ours, peer = (cell_config(cell) for cell in parse_sweep(SWEEP | {"settings": {"preset": "quick"}}).cells())
    assert ours.steps == peer.steps == 500_000
    assert (ours.search.policies, ours.search.probes) == (peer.policies, peer.probes) == (4, 5)
    assert peer.settings == cell_config(Cell("Swimmer-v2", "stub", 0)).settings
    shorter = parse_sweep(SWEEP | {"settings": {"preset": "quick"}, "steps": 90_000}).cells()
    assert [cell_config(cell).steps for cell in shorter] == [90_000, 90_000]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 2.5e6}, "steps is 2500000.0; it must be a whole number"),
        ({"steps": "90"}, "steps is '90'; it must be a whole number"),
        ({"horizon": 20.0}, "horizon is 20.0; it must be a whole number or null"),
        ({"episodes": True}, "episodes is True; it must be a whole number"),
        ({"reference_point": 0.0}, "reference_point is 0.0; it must be a list or null"),
        ({"protocol": 1}, "protocol is 1; it must be text"),
        ({"preset": 5}, "preset is 5; it must be text"),
        ({"preset": None}, "preset is None; it must be text"),
        ({"preset": "quik"}, "unknown preset 'quik'; did you mean quick?"),
        ({"settings": {"batch": 20}}, "unknown setting 'settings' of stub"),
        ({"steps": 9}, "steps is 9, too few for the stub"),
    ],
)
def test_a_peer_s_cell_is_checked_before_it_runs(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        check_cells([Cell("Swimmer-v2", "stub", 0, settings)])
    assert str(fault.value).startswith(f"cell Swimmer-v2/stub-seed0: {message}")


def test_a_sweep_finds_a_missing_extra(monkeypatch: Any) -> None:
    monkeypatch.setitem(METHODS.entries, "stub", make_entry("no_such_package.peer:make"))
    with pytest.raises(ConfigError, match=r"stub-seed0: method stub needs no_such_package.*pip install"):
        check_cells([Cell("Swimmer-v2", "stub", 0)])


@pytest.mark.parametrize(
    ("problem", "method", "settings", "message"),
    [
        ("Counter", "pdmorl", {}, "needs Box actions"),
        ("Trade", "pdmorl", {"steps": 12}, "steps is 12, too few for 3 key preferences and 10 workers"),
        ("Counter", "capql", {}, "3 discrete choices"),
        ("FourBall", "pgmorl", {}, "has 4 objectives; PGMORL knows only two or three"),
        ("Trade", "pgmorl", {"pop_size": 9}, "would train 9 tasks"),
    ],
)
def test_a_sweep_finds_what_a_method_cannot_train(
    problem: str, method: str, settings: dict[str, Any], message: str
) -> None:
    if method != "pdmorl":
        pytest.importorskip("morl_baselines", reason="needs the extra 'peers': pip install 'ucb-moppo[peers]'")
    with pytest.raises(ConfigError, match=rf"cell .*{message}"):
        check_cells([Cell(f"probe_envs:probe/{problem}-v0", method, 0, settings)])


def test_a_peer_is_measured_by_discounted_returns_like_ours(tmp_path: Path) -> None:
    """The same policy twice: what one was told to discount by, `evaluate` gives of the other."""
    plain = train_stub(tmp_path / "plain", held_out=2)
    discounted = train_stub(tmp_path / "discounted", held_out=2, evaluation_discount=0.5)
    evaluate_run(plain.path, None, discount=0.5, out=tmp_path / "front.csv")
    assert (tmp_path / "front.csv").read_bytes() == (discounted.path / "front.csv").read_bytes()
    evaluate_run(discounted.path, None, discount=1.0, out=tmp_path / "front.csv")
    assert (tmp_path / "front.csv").read_bytes() == (plain.path / "front.csv").read_bytes()
    assert (plain.path / "front.csv").read_bytes() != (discounted.path / "front.csv").read_bytes()
    assert discounted.summary["evaluation_discount"] == 0.5


def step_stub(**settings: Any) -> ucb_moppo.SteppedTrainer:
    settings = {"horizon": 4, "steps": 100, "evaluations": 2, "episodes": 1, "held_out": 0} | settings
    return ucb_moppo.make_trainer("Swimmer-v2", method="stub", **settings)


def test_stepping_by_hand_finds_what_train_finds(tmp_path: Path) -> None:
    run = train_stub(tmp_path / "run")
    with step_stub() as trainer:
        for _ in trainer.run():
            pass
        for column, same in zip(trainer.front(), run.front(), strict=True):
            np.testing.assert_array_equal(column, same)
        observation = np.full(8, 0.1)
        same_action = run.policy([0.4, 0.6])(observation)
        np.testing.assert_array_equal(trainer.policy([0.4, 0.6])(observation), same_action)
        title = run.plot_front().get_suptitle()
        assert trainer.plot_front().get_suptitle() == title
    assert title.startswith("Swimmer-v2, stub, seed 0, 100 training steps: HV ")


def test_who_cannot_be_continued_is_not_stepped_on_once_left() -> None:
    with step_stub() as trainer:
        events = trainer.run()
        assert [type(next(events)) for _ in range(3)] == [ucb_moppo.StageRecord, *[ucb_moppo.Iteration] * 2]
        with pytest.raises(ConfigError, match="stub cannot be continued where it was left, after step 20"):
            trainer.run()
        *_, last = events  # which goes on
        assert last.finished
        assert list(trainer.run()) == []
        with pytest.raises(ConfigError, match="a run of stub cannot be continued"):
            trainer.get_state()


def test_who_can_be_continued_is_stepped_on(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(make_entry("stub_peer:ResumableStub"), resumable=True)
    monkeypatch.setitem(METHODS.entries, "stub", entry)
    with step_stub() as trainer:
        events = trainer.run()
        assert [next(events) for _ in range(3)][1:] == [ucb_moppo.Iteration(10), ucb_moppo.Iteration(20)]
        assert next(event for event in trainer.run()) == ucb_moppo.Iteration(30)
        assert list(events) == []  # there is one that trains


def test_closing_ends_the_method_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other packages work in a thread of their own, which must not wait for ever."""

    def train(peer: StubPeer) -> Any:
        try:
            yield Counts(training=10)
        finally:
            ended.append(True)

    ended: list[bool] = []
    monkeypatch.setattr(StubPeer, "train", train)
    with step_stub() as trainer:
        events = trainer.run()
        assert [next(events) for _ in range(2)][1] == ucb_moppo.Iteration(10)
        assert ended == []
    assert ended == [True]
    with pytest.raises(ConfigError, match="closed after iteration 10"):
        next(events)
