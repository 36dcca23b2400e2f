"""Videos: the evaluated episode itself, rendered offscreen, cached, and readable messages where it cannot be."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from sample_runs import SampleRun, rewrite

pytest.importorskip("imageio_ffmpeg", reason="videos are not installed: pip install 'ucb-moppo[viewer]'")

import imageio_ffmpeg
import mo_gymnasium
import mujoco

from ucb_moppo.cli import main as cli
from ucb_moppo.cli.options import Train
from ucb_moppo.engine.evaluation import evaluate
from ucb_moppo.envs import make_batch
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import dump_tensors, make_digest
from ucb_moppo.training.reevaluate import load_actors, subspace_weights
from ucb_moppo.viewer.renderer import Renderer, render_ahead, render_rows
from ucb_moppo.viewer.video import Told, find_video, frame_rate, make_drawable, spread_rows


@pytest.fixture(scope="module")
def swimmer(tmp_path_factory):
    """Two untrained policies; every episode has 12 steps."""
    path = tmp_path_factory.mktemp("runs") / "swimmer"
    return SampleRun(problem="Swimmer-v2", num_policies=2, probes=3, horizon=12).write(path)


def film_of(run: Path, row: int) -> Path:
    return run / "videos" / f"{find_video(Run(run), row).name}.mp4"


@pytest.fixture(scope="module")
def told(swimmer):
    return list(render_rows(swimmer, [4]))


def test_progress_is_told(told):
    shares = [line.share for line in told]
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert told[-1] == Told(4, 1.0, done=True)


def test_the_episode_is_the_evaluated_one(swimmer, told):
    run = Run(swimmer)
    weights = subspace_weights(run, None)
    env = make_batch("Swimmer-v2", 6, horizon=12)
    expected = evaluate(load_actors(run), weights, env).returns.reshape(6, 2)[4]
    video = find_video(run, 4)
    assert video is not None
    assert video.steps == 12
    np.testing.assert_allclose(video.returns, expected, rtol=1e-5)


def test_the_file_is_a_film_of_every_step(swimmer, told):
    frames = imageio_ffmpeg.read_frames(str(film_of(swimmer, 4)))
    about = next(frames)
    assert about["codec"] == "h264"
    assert about["size"] == (480, 360)
    pictures = [np.frombuffer(frame, np.uint8) for frame in frames]
    assert len(pictures) == 13  # before each of the 12 steps, and the last state
    assert pictures[0].std() > 10  # something is drawn


@pytest.mark.parametrize("problem", ["HalfCheetah-v2", "mo-hopper-v5"])
def test_the_camera_moves_along(tmp_path, problem):
    run = SampleRun(problem=problem, num_policies=1, probes=2, num_stages=2).write(tmp_path / "run")
    batch = make_drawable(Run(run))
    env = batch.environments[0].unwrapped
    batch.close()
    assert env.model.cam_mode[env.mujoco_renderer.camera_id] == mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM


def test_the_floor_does_not_end_before_the_film_and_its_tiles_are_as_large_as_they_were(tmp_path):
    """Ten seconds at the 4 m/s that HalfCheetah-v2 pays for are the 40 metres of the model's own floor."""
    run = Run(SampleRun(problem="HalfCheetah-v2", num_policies=1, probes=2, num_stages=2).write(tmp_path / "run"))
    batch, own = make_drawable(run), mo_gymnasium.make("ucb_moppo/HalfCheetah-v2").unwrapped.model
    model = batch.environments[0].unwrapped.model
    batch.close()
    [floor] = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    material = model.geom_matid[floor]
    assert own.geom_size[floor, 0] == 40
    assert model.geom_size[floor, 0] >= 100
    tiles, own_tiles = (m.mat_texrepeat[material] / m.geom_size[floor, :2] for m in (model, own))
    np.testing.assert_allclose(tiles, own_tiles)


def test_cached_until_the_policies_change(swimmer, told):
    renderer = Renderer()
    assert renderer.progress(swimmer, 4).state == "done"
    assert renderer.progress(swimmer, 3).state == "missing"
    assert {path.suffix for path in (swimmer / "videos").iterdir()} == {".mp4", ".json"}


def rendered(run: Path, row: int) -> Path:
    assert list(render_rows(run, [row]))[-1].done
    return film_of(run, row)


def learn(run: Path) -> bytes:
    """What the policies of a run would be after another step, as a file."""
    tensors = {name: array + np.float32(0.01) for name, array in Run(run).tensors().items()}
    return dump_tensors(tensors)


def test_new_policies_have_no_video_and_the_next_one_replaces_the_old(tmp_path):
    run = SampleRun(problem="Swimmer-v2", num_policies=2, probes=2, horizon=6).write(tmp_path / "swimmer")
    old = rendered(run, 1)
    (run / "videos" / "mine.mp4").write_bytes(b"kept")
    rewrite(run, "policies.safetensors", learn(run))
    assert find_video(Run(run), 1) is None
    new = rendered(run, 1)
    assert sorted(path.name for path in (run / "videos").iterdir()) == sorted(
        [new.name, new.with_suffix(".json").name, "mine.mp4"]
    )
    assert new.name != old.name


def test_a_video_made_while_policies_are_replaced_is_of_those_it_shows(tmp_path):
    run = SampleRun(problem="Swimmer-v2", num_policies=2, probes=2, horizon=6).write(tmp_path / "swimmer")
    before, after = (run / "policies.safetensors").read_bytes(), learn(run)
    rewrite(run, "policies.safetensors", after)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"]["policies.safetensors"].append(make_digest(before).to_json())
    (run / "manifest.json").write_text(json.dumps(manifest))
    # The moment between the two: the manifest knows both, new first, and the file is still the old one.
    (run / "policies.safetensors").write_bytes(before)
    assert Run(run).digest() == hashlib.sha256(before).hexdigest()
    reader = Run(run)
    reader.tensors()
    (run / "policies.safetensors").write_bytes(after)
    assert reader.digest() == hashlib.sha256(before).hexdigest()
    assert Run(run).digest() == hashlib.sha256(after).hexdigest()


def test_damaged_policies_have_no_video_but_a_reason(tmp_path):
    run = SampleRun(problem="Swimmer-v2", num_policies=2, probes=2).write(tmp_path / "damaged")
    (run / "policies.safetensors").write_bytes(b"nonsense")
    renderer = Renderer()
    renderer.request(run, 0)
    assert renderer.progress(run, 0).state == "failed"
    assert "policies.safetensors" in renderer.progress(run, 0).error


def test_render_ahead_tells_how_far_it_is(swimmer, told):
    lines = []
    render_ahead(swimmer, [4], lines.append)
    assert lines == ["video 1 of 1: rendered"]


def test_an_environment_that_cannot_be_drawn_says_so(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "support"))
    run = SampleRun(problem="probe_envs:probe/Counter-v0", num_policies=2, probes=2).write(tmp_path / "counter")
    (line,) = [line for line in render_rows(run, [0]) if line.error]
    assert "probe/Counter-v0 cannot be drawn" in line.error
    assert "Traceback" not in line.error
    assert "names code to import and execute: probe_envs" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("own", "expected"), [(None, (1, 25)), (25, (1, 25)), (125, (5, 25)), (20, (1, 20)), (4, (1, 4))]
)
def test_films_play_at_the_speed_of_the_environment(own, expected):
    assert frame_rate(own) == expected


@pytest.mark.parametrize(("count", "rows"), [(0, []), (1, [4]), (2, [4, 3]), (3, [4, 3, 1]), (9, [4, 3, 1, 0, 2])])
def test_films_are_of_the_ends_of_the_front_and_of_what_differs_most_from_them(tmp_path, count, rows):
    # The ends are rows 4 and 3; row 5 is dominated. Row 1 is half-way; rows 0 and 2 are as far from all of these.
    returns = np.array([[[2.0, 4.0], [3.0, 3.0], [4.0, 2.0]], [[1.0, 5.0], [5.0, 1.0], [0.5, 0.5]]])
    assert spread_rows(Run(SampleRun.showing(returns).write(tmp_path / "run")), count) == rows


def test_train_films_the_front_it_has_found(swimmer, told, capsys):
    found = find_video(Run(swimmer), 4)
    [best] = spread_rows(Run(swimmer), 1)
    cli.film(Run(swimmer), Train(settings=None, videos=1))
    shown = capsys.readouterr()
    assert shown.err == "video 1 of 1: rendered\n"
    film = film_of(swimmer, best)
    names, returns = Run(swimmer).summary["objectives"], find_video(Run(swimmer), best).returns
    told_returns = ", ".join(f"{name} {x:,.0f}" for name, x in zip(names, returns, strict=True))
    assert shown.out == f"video: {film}   {told_returns}\n"
    assert find_video(Run(swimmer), 4) == found


def test_a_front_that_cannot_be_filmed_is_still_found(tmp_path, capsys):
    run = Run(SampleRun().write(tmp_path / "on-paper"))
    cli.film(run, Train(settings=None, videos=1))
    shown = capsys.readouterr()
    assert "on-paper" not in shown.out
    assert shown.err.startswith("video 1 of 1: ")
    assert "rendered" not in shown.err


def test_packages_for_videos_are_asked_for_before_training(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("ucb_moppo.viewer.serve.NEEDED", {"no_such_module": "no-such-package"})
    with pytest.raises(SystemExit):
        cli.main(["train", "Swimmer-v2", "--videos", "1", "--out", str(tmp_path / "run")])
    assert "pip install 'ucb-moppo[viewer]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
