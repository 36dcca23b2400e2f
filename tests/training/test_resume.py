"""A run that was interrupted ends as if it never had been; a run that has changed says what has."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import DiesAt, Killed, assert_same, tiny_settings, train_tiny, train_until

import ucb_moppo
from ucb_moppo.config import override, resolve
from ucb_moppo.engine.learner import Iteration
from ucb_moppo.engine.trainer import Trainer
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import (
    ConfigError,
    DamagedFileError,
    DisagreementError,
    FormatVersionError,
    RunFormatError,
    RunLockedError,
    UcbMoppoWarning,
)
from ucb_moppo.runtime.executor import make_executor
from ucb_moppo.store.checkpoint import checkpoint_name, list_checkpoints
from ucb_moppo.store.lock import locked
from ucb_moppo.store.storage import make_digest
from ucb_moppo.training.record import versions
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run
from ucb_moppo.training.stop import Deadline
from ucb_moppo.training.train import train_run


def resume(path: Path, **options: Any) -> ucb_moppo.Run:
    return resume_run(path, Silent(), **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    return train_tiny(tmp_path_factory.mktemp("whole") / "run").path


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, killed in the middle of its third stage. Copied by the tests that write to it."""
    return train_until(tmp_path_factory.mktemp("killed") / "run", 5)


@pytest.fixture
def broken(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "run"))


# --- exact -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iteration", [1, 2, 3, 8, 10])
def test_a_resumed_run_ends_like_one_that_was_never_interrupted(
    whole: Path, tmp_path: Path, iteration: int
) -> None:
    path = train_until(tmp_path / "run", iteration)
    resume(path)
    assert_same(path, whole)


# One policy for both sub-spaces in the first four of ten iterations, the first two of them warm-up.
PARTING: dict[str, Any] = {"layout": "parting", "together": 4, "shards": 2, "executor": "local"}


@pytest.fixture(scope="module")
def whole_parting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("whole") / "run", **PARTING).path


@pytest.mark.parametrize("iteration", [1, 3, 4, 5, 9])
def test_a_run_that_parts_is_resumed_exactly(whole_parting: Path, tmp_path: Path, iteration: int) -> None:
    """Killed while policies are shared, when the last of that is trained but not yet evaluated, and apart."""
    path = train_until(tmp_path / "run", iteration, **PARTING)
    resume(path)
    assert_same(path, whole_parting)


def test_a_run_may_be_interrupted_again_and_again(whole: Path, tmp_path: Path) -> None:
    path = train_until(tmp_path / "run", 3)
    for iteration in (4, 5, 7, 10):
        with pytest.raises(Killed):
            resume_run(path, DiesAt(iteration))
    resume(path)
    assert_same(path, whole)


def test_a_run_without_a_checkpoint_yet_begins_again(whole: Path, broken: Path) -> None:
    shutil.rmtree(broken / "checkpoints")
    for name in ("metrics.jsonl", "evaluations.csv", "front.csv", "summary.json"):
        (broken / name).unlink()
    resume(broken)
    assert_same(broken, whole)


def test_resuming_a_finished_run_changes_nothing(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    (path / "front.png").unlink()  # killed just before the picture was drawn
    resume(path)
    assert_same(path, whole)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "random", "resample_iterations": 3},
        {"candidate_values": "simulate", "method": "mean"},
        {"problem": "probe_envs:probe/Walk-v0", "method": "fixed", "horizon": 7},
    ],
)
def test_other_methods_and_replayed_environments_resume_exactly(tmp_path: Path, settings: dict[str, Any]) -> None:
    whole = train_tiny(tmp_path / "whole", **settings).path
    path = train_until(tmp_path / "run", 5, **settings)
    resume(path)
    assert_same(path, whole)


@pytest.mark.parametrize("settings", [{}, PARTING])
def test_the_state_holds_everything_between_two_iterations(settings: dict[str, Any]) -> None:
    """Two trainers that exchange states at every iteration do what one alone does, to the bit."""
    spec = make_spec("Swimmer-v2", 20)
    config = resolve(tiny_settings(**settings), spec)
    alone, first, second = (Trainer(config, spec, make_executor(config, spec)) for _ in range(3))

    def finish(trainer: Trainer, other: Trainer) -> Trainer:
        """Train one iteration here, the next one there, and so on."""
        for event in trainer.run():
            if isinstance(event, Iteration):
                other.set_state(trainer.get_state())
                return finish(other, trainer)
        return trainer

    list(alone.run())
    found, expected = finish(first, second).get_state(), alone.get_state()
    assert found.keys() == expected.keys()
    for name in expected.keys() - {"seconds", "stage_seconds"}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


# --- damaged -----------------------------------------------------------------------------------------------


def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_ends_the_same(whole: Path, broken: Path) -> None:
    newest = broken / "checkpoints" / list_checkpoints(broken)[0]
    os.truncate(newest / "state.safetensors", 1000)
    with pytest.warns(UcbMoppoWarning, match="state.safetensors has 1,000 bytes.*trying the one before"):
        resume(broken)
    assert_same(broken, whole)


def test_a_damaged_manifest_of_the_run_is_written_again(whole: Path, broken: Path) -> None:
    (broken / "manifest.json").write_bytes(b"{")
    with pytest.raises(DamagedFileError, match=r"manifest\.json"):
        ucb_moppo.load(broken)
    resume(broken)
    assert_same(broken, whole)


def test_lost_checkpoints_do_not_begin_a_run_again(broken: Path) -> None:
    shutil.rmtree(broken / "checkpoints")
    with pytest.raises(DamagedFileError, match="checkpoints is missing: there is nothing to continue from"):
        resume(broken)


def test_metrics_that_were_lost_are_not_made_up(broken: Path) -> None:
    (broken / "metrics.jsonl").write_bytes(b"")
    with pytest.warns(UcbMoppoWarning), pytest.raises(DamagedFileError, match=r"metrics\.jsonl has 0 bytes"):
        resume(broken)


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="holds no run"):
        resume(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


# --- disagreements -----------------------------------------------------------------------------------------


def edit_config(run: Path, section: str | None, **changes: Any) -> None:
    data = json.loads((run / "config.json").read_text())
    (data if section is None else data[section]).update(changes)
    (run / "config.json").write_text(json.dumps(data))


def test_a_changed_setting_is_named_and_refused_unless_told_to(broken: Path) -> None:
    edit_config(broken, "ppo", gamma=0.5)
    edit_config(broken, None, seed=3)
    with pytest.raises(
        DisagreementError, match=r"config ppo gamma: 0\.9999 is now 0\.5; config seed: 0 is now 3.*--force"
    ):
        resume(broken)
    run = resume(broken, force=True)
    assert run.config["ppo"]["gamma"] == 0.5
    assert run.summary["finished"]


def test_how_often_to_save_and_threads_may_change(whole: Path, broken: Path) -> None:
    edit_config(broken, None, threads=1, checkpoint_stages=3, checkpoint_seconds=0.5)
    resume(broken)
    assert (
        ucb_moppo.load(broken).evaluated().returns.tobytes() == ucb_moppo.load(whole).evaluated().returns.tobytes()
    )


def test_a_changed_problem_is_named(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*arguments: Any) -> Any:
        return dataclasses.replace(make_spec(*arguments), objectives=("speed", "beauty"))

    monkeypatch.setattr("ucb_moppo.training.train.make_spec", other)
    with pytest.raises(
        DisagreementError, match=r"problem objectives: \['forward speed', .*\] is now \['speed', 'beauty'\]"
    ):
        resume(broken)


def test_a_changed_library_is_named(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = versions("ucb")
    monkeypatch.setattr("ucb_moppo.training.record.versions", lambda method: known | {"jax": "99.0"})
    with pytest.raises(DisagreementError, match=rf"version jax: {known['jax']} is now 99\.0"):
        resume(broken)
    resume(broken, force=True)


def test_other_numerics_are_named(broken: Path) -> None:
    """In a process of its own: JAX reads the variable when it is imported."""
    command = [sys.executable, "-m", "ucb_moppo", "resume", str(broken), "--quiet"]
    done = subprocess.run(command, env=os.environ | {"JAX_ENABLE_X64": "1"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "was saved under other conditions: numerics x64: False is now True" in done.stderr


@pytest.mark.parametrize("setting", ["ensemble", "acquisition"])
def test_a_setting_that_did_not_exist_yet_has_its_default(broken: Path, setting: str) -> None:
    """A run saved before there was a choice (of acquisitions, say) had the one that is the default."""
    for name in list_checkpoints(broken):
        facts = broken / "checkpoints" / name / "state.json"
        data = json.loads(facts.read_text())
        del data["config"]["search"][setting], data["config"]["indicators"], data["numerics"]
        facts.write_text(json.dumps(data))
        manifest = facts.with_name("manifest.json")
        digests = json.loads(manifest.read_text())
        digests["files"]["state.json"] = make_digest(facts.read_bytes()).to_json()
        manifest.write_text(json.dumps(digests))
    config = json.loads((broken / "config.json").read_text())
    resume(broken)
    assert json.loads((broken / "config.json").read_text()) == config


def test_a_forced_resume_still_refuses_a_state_that_does_not_fit(broken: Path) -> None:
    edit_config(broken, "ppo", cells=32)
    with pytest.raises(RunFormatError, match="the saved policy"):
        resume(broken, force=True)


# --- versions of the format --------------------------------------------------------------------------------


def test_a_run_from_the_future_is_refused(broken: Path) -> None:
    manifest = json.loads((broken / "manifest.json").read_text())
    (broken / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    for read in (ucb_moppo.load, resume):
        with pytest.raises(
            FormatVersionError, match=r"manifest\.json has format 99, newer than .* upgrade ucb-moppo"
        ):
            read(broken)


def make_first_format(run: Path) -> None:
    """What the first version wrote: no manifest, no checkpoints, the digest of the policies with the problem."""
    files = json.loads((run / "manifest.json").read_text())["files"]
    problem = json.loads((run / "policies.json").read_text())
    digest = files["policies.safetensors"][0]
    (run / "policies.json").write_text(json.dumps(problem | digest | {"format": 1, "file": "policies.safetensors"}))
    (run / "manifest.json").unlink()
    shutil.rmtree(run / "checkpoints")


def test_a_run_of_the_first_format_is_read_and_not_continued(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    expected = ucb_moppo.load(whole).policy([0.5, 0.5])
    make_first_format(path)
    policy = ucb_moppo.load(path).policy([0.5, 0.5])
    assert policy(np.zeros(8)).tobytes() == expected(np.zeros(8)).tobytes()
    with pytest.raises(FormatVersionError, match="has format 1, which saved no checkpoints: train it again"):
        resume(path)
    (path / "policies.safetensors").write_bytes(b"other")
    with pytest.raises(DamagedFileError, match=r"policies\.safetensors"):
        ucb_moppo.load(path).policy([0.5, 0.5])


# --- one writer --------------------------------------------------------------------------------------------


def test_a_second_writer_fails_at_once(broken: Path) -> None:
    with locked(broken), pytest.raises(RunLockedError, match=f"is being written by process {os.getpid()}"):
        resume(broken)


def test_a_second_run_into_a_directory_is_refused(whole: Path) -> None:
    with pytest.raises(ConfigError, match=r"already holds a run.*ucb-moppo resume"):
        train_tiny(whole)


def test_a_run_that_cannot_be_written_is_not_begun(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        train_tiny(tmp_path / "file")


# --- the environment ---------------------------------------------------------------------------------------


def test_an_environment_that_raises_is_reported_and_the_run_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import probe_envs

    settings: dict[str, Any] = {"problem": "probe_envs:probe/Walk-v0", "method": "fixed", "horizon": 7}
    whole = train_tiny(tmp_path / "whole", **settings).path
    pay, paid = probe_envs.Walk.pay, []

    def burn(self: probe_envs.Walk, action: Any) -> Any:
        paid.append(action)
        if len(paid) == 600:
            raise RuntimeError("the motor burnt out")
        return pay(self, action)

    with monkeypatch.context() as patch:
        patch.setattr(probe_envs.Walk, "pay", burn)
        fault = (
            r"probe/Walk-v0: environment \d failed after \d steps from seed \d+: RuntimeError: the motor burnt out"
        )
        with pytest.raises(ucb_moppo.errors.EnvironmentFault, match=fault):
            train_tiny(tmp_path / "run", **settings)
    resume(tmp_path / "run")
    assert_same(tmp_path / "run", whole)


def test_how_often_to_save_is_a_setting() -> None:
    assert override(tiny_settings(), checkpoint_stages=2).checkpoint_stages == 2
    with pytest.raises(ConfigError, match="checkpoint_seconds is -1"):
        tiny_settings(checkpoint_seconds=-1.0)


def test_the_first_checkpoint_is_not_replaced_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run killed before its first evaluation has one checkpoint; resuming keeps it."""
    run = tmp_path / "run"
    config, name = tiny_settings(), checkpoint_name(0, 0)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_evaluate", killed)
    with pytest.raises(KeyboardInterrupt):
        train_run(config, run, Silent())
    assert list_checkpoints(run) == [name]
    before = (run / "checkpoints" / name).stat().st_ino
    with pytest.raises(KeyboardInterrupt):
        resume_run(run, Silent())
    assert (run / "checkpoints" / name).stat().st_ino == before


# --- wall time ---------------------------------------------------------------------------------------------


def test_wall_time_ends_a_run_cleanly_and_it_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up after iteration 3 of 10, in the middle of a stage: what there is then is evaluated and
    written, and continuing the run leaves no trace of it."""
    asked = iter([False, False, True])
    monkeypatch.setattr(Deadline, "passed", property(lambda self: next(asked, False)))
    path = tmp_path / "run"
    run = train_run(tiny_settings(), path, Silent(), max_seconds=1000.0)
    assert run.summary["stopped"] == "max_seconds"
    assert run.summary["finished"] is False
    assert [line["iteration"] for line in run.metrics()] == [0, 2, 3]
    assert run.summary["training_steps"] == 3 * 80
    resumed = resume_run(path, Silent())
    assert "stopped" not in resumed.summary
    train_tiny(tmp_path / "whole")
    assert_same(path, tmp_path / "whole")


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_a_time_that_cannot_be_is_refused(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(ConfigError, match=f"max_seconds is {seconds}"):
        train_run(tiny_settings(), tmp_path / "run", Silent(), max_seconds=seconds)
