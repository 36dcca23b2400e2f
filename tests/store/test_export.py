"""Exported policies act like the policy they were made of, for every kind of action, in programs that have none of
our code: in onnxruntime, and in a Python that cannot import us."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from trade_runs import train_trade

import ucb_moppo
from ucb_moppo.errors import ConfigError
from ucb_moppo.policy.networks import PAPER_NETWORK, Activation, Network, init_params
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import ActionSpec, EnvSpec, ObservationPart
from ucb_moppo.store.export import find_policy, round_inwards
from ucb_moppo.store.front import measured_rows

COUNT = 1000
BOX = ActionSpec(False, 3, (-2.0, -0.3, -np.inf), (4.0, 0.1, np.inf))
ACTIONS = {
    "box": BOX,
    "discrete": ActionSpec(discrete=True, size=5, start=-2),
    "multi_discrete": ActionSpec(False, 3, (0.0, 7.0, -1.0), (3.0, 8.0, 1.0), choices=(4, 2, 3)),
    "multi_binary": ActionSpec(False, 2, (0.0, 0.0), (1.0, 1.0), choices=(2, 2)),
    "one_choice": ActionSpec(False, 1, (3.0,), (5.0,), choices=(3,)),
    "matrix": ActionSpec(False, 4, (-2.0,) * 4, (4.0,) * 4, shape=(2, 2), dtype="float32"),
    "number": ActionSpec(False, 1, (-2.0,), (4.0,), shape=(), dtype="float32"),
    "choices_in_rows": ActionSpec(False, 4, (0.0,) * 4, (2.0,) * 4, choices=(3,) * 4, shape=(2, 2), dtype="int8"),
}
NETWORKS = {
    "ours": PAPER_NETWORK,
    "another": Network("relu", hidden_layers=1, conditioned=False, residual=False, squash=True),
    "deep": Network("relu", hidden_layers=2, conditioned=True, residual=False),
    **{name: Network(name) for name in get_args(Activation)},
}
CASES = [(action, "ours", True) for action in ACTIONS] + [
    ("box", "another", True),
    ("box", "deep", True),
    ("box", "ours", False),
    ("discrete", "deep", False),
    *(("box", activation, True) for activation in get_args(Activation)),
]


def make_policy(action: str = "box", network: str = "ours", counted: bool = True) -> Policy:
    """A policy with random parameters whose outputs leave the action range now and then; ``counted``: observations
    have been seen."""
    rng = np.random.default_rng(3)
    spec = EnvSpec("Made-v0", ("speed", "thrift"), 4, ACTIONS[action], 10, (0.0, 0.0))
    how = NETWORKS[network]
    params = init_params(
        rng,
        observation_size=4,
        num_objectives=2,
        action_size=spec.action.size,
        discrete=spec.action.discrete,
        cells=16,
        log_std=0.0,
        choices=spec.action.choices,
    )["actor"]
    inputs = {"hidden1": 4 + 2 * how.conditioned, "head": 16 + 2 * how.residual}
    params = {
        name: array[-inputs[layer] :] if (layer := name.split(".")[0]) in inputs and array.ndim == 2 else array
        for name, array in params.items()
    }
    if how.hidden_layers == 1:
        params = {name: array for name, array in params.items() if not name.startswith("hidden2")}
    tensors = {
        f"actor.{n}": (rng.normal(0, 0.6, a.shape) if n != "log_std" else a).astype(np.float32)
        for n, a in params.items()
    }
    tensors |= {
        "observation.mean": np.array([1.0, -2.0, 0.5, 3.0], np.float32),
        "observation.variance": np.array([4.0, 0.25, 0.0, 1.0], np.float32),
        "observation.count": np.array(100.0 * counted, np.float32),
    }
    return Policy(spec, 1, np.array([0.7, 0.3]), np.array([12.5, np.nan]), tensors, how)


def observations(policy: Policy) -> np.ndarray:
    """Rows around and far beyond what was seen, so that normalisation clips some."""
    rng = np.random.default_rng(5)
    rows = rng.normal(0, 3, (COUNT, policy.spec.observation_size)) * 10.0 ** rng.uniform(-1, 2, (COUNT, 1))
    return rows.astype(np.float32)


# --- ONNX --------------------------------------------------------------------------------------------------


def run_onnx(path: Path, rows: np.ndarray) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime", reason="not installed: pip install onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["observation"]
    (actions,) = session.run(["action"], {"observation": rows})
    return np.asarray(actions)


@pytest.mark.parametrize(("action", "network", "counted"), CASES)
def test_onnx_acts_like_the_policy_on_1000_observations(
    action: str, network: str, counted: bool, tmp_path: Path
) -> None:
    """Choices are equal; quantities differ by less than 1e-5 of the range, of which float32 resolves 1e-7."""
    pytest.importorskip("onnx", reason="not installed: pip install 'ucb-moppo[onnx]'")
    policy = make_policy(action, network, counted)
    rows = observations(policy)
    expected, found = policy(rows), run_onnx(policy.export(tmp_path / "policy.onnx"), rows)
    assert found.shape == expected.shape
    if policy.spec.action.chosen:
        assert found.dtype == np.int64
        assert len(np.unique(expected, axis=0)) > 1
        np.testing.assert_array_equal(found, expected)
        return
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    low, high = (
        np.reshape(bound, expected.shape[1:]) for bound in (policy.spec.action.low, policy.spec.action.high)
    )
    assert (found >= low).all()
    assert (found <= high).all()
    if (action, network) == ("box", "ours"):
        assert (found[:, :2] == low[:2].astype(np.float32)).any()  # it was clipped
        assert (expected[:, 2] > 1).any()  # and what has no bound was not


def test_onnx_says_what_it_holds_and_is_the_same_bytes_again(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="not installed: pip install 'ucb-moppo[onnx]'")
    paths = [make_policy().export(tmp_path / name) for name in ("a.onnx", "b.onnx")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    model = onnx.load(str(paths[0]))
    facts = {each.key: json.loads(each.value) for each in model.metadata_props}
    assert facts["weight"] == [0.7, 0.3]
    assert facts["expected_returns"] == [12.5, None]
    assert facts["spec"]["name"] == facts["problem"] == "Made-v0"
    assert model.opset_import[0].version == 17


def test_a_bound_is_rounded_to_the_inside() -> None:
    """Of 0.1 and 0.3 the nearest float32 are above and above (0.1000000015, 0.3000000119)."""
    low, high = round_inwards(np.array([0.1, 0.5]), np.inf), round_inwards(np.array([0.1, 0.3]), -np.inf)
    assert low.tolist() == [np.float32(0.1), 0.5]
    assert high.tolist() == [np.nextafter(np.float32(each), np.float32(0)) for each in (0.1, 0.3)]
    assert (high < [0.1, 0.3]).all()


# --- a folder of numpy -------------------------------------------------------------------------------------

ALONE = """
import sys
import numpy as np
try:
    import ucb_moppo
except ImportError:
    pass
else:
    sys.exit("it can import us")
sys.path.insert(0, sys.argv[1])
from act import act
rows = np.load(sys.argv[2])
np.savez(sys.argv[3], batch=act(rows), single=act(rows[0]), other=act(rows, weight=[0.2, 0.8]))
assert not {"ucb_moppo", "safetensors", "msgspec", "jax"} & set(sys.modules)
"""


def act_alone(folder: Path, rows: np.ndarray, tmp_path: Path) -> Any:
    """What act.py says in a Python of its own, in which our package cannot be found."""
    np.save(tmp_path / "rows.npy", rows)
    numpy_only = tmp_path / "site"
    numpy_only.mkdir(exist_ok=True)
    for name in ("numpy", "numpy.libs"):
        target = Path(np.__file__).parent.parent / name
        if target.exists() and not (numpy_only / name).exists():
            (numpy_only / name).symlink_to(target)
    # -I ignores PYTHONPATH and the current folder, -S the installed packages; numpy alone is given back.
    program = f"import sys; sys.path.append({str(numpy_only)!r})\n{ALONE}"
    command = [sys.executable, "-I", "-S", "-c", program, folder, tmp_path / "rows.npy", tmp_path / "said.npz"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return np.load(tmp_path / "said.npz")


@pytest.mark.parametrize(("action", "network", "counted"), CASES)
def test_the_folder_acts_with_the_same_bits_where_we_are_not(
    action: str, network: str, counted: bool, tmp_path: Path
) -> None:
    policy = make_policy(action, network, counted)
    rows = observations(policy)
    folder = policy.export(tmp_path / "policy")
    assert {path.name for path in folder.iterdir()} == {"act.py", "parameters.npz", "policy.json"}
    said = act_alone(folder, rows, tmp_path)
    np.testing.assert_array_equal(said["batch"], policy(rows))
    np.testing.assert_array_equal(said["single"], policy(rows[0]))
    other = dataclasses.replace(policy, weight=np.array([0.2, 0.8]))
    np.testing.assert_array_equal(said["other"], other(rows))
    policy.export(folder)  # again, beside what Python has compiled there


@pytest.mark.parametrize("activation", get_args(Activation))
def test_the_code_that_is_exported_is_short(activation: str, tmp_path: Path) -> None:
    code = (make_policy(network=activation).export(tmp_path / "policy") / "act.py").read_text()
    assert len(code.splitlines()) <= 30
    assert max(map(len, code.splitlines())) <= 120


@pytest.mark.parametrize("action", ACTIONS)
def test_the_folder_gives_shapes_as_the_policy_does(action: str, tmp_path: Path, monkeypatch: Any) -> None:
    policy = make_policy(action)
    monkeypatch.syspath_prepend(str(policy.export(tmp_path / "policy")))
    monkeypatch.delitem(sys.modules, "act", raising=False)
    import act  # type: ignore[import-not-found]

    rows = observations(policy)[:6]
    for told in (rows, rows[:1], rows[0]):
        assert np.shape(act.act(told)) == np.shape(policy(told))


def test_observations_in_parts_come_with_the_code_that_flattens_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A door (one of 2, from 0) and a place (2 × 3 numbers), as the policy sees them: 2 + 6 numbers."""
    parts = (ObservationPart(("door",), (), (2,), (0,)), ObservationPart(("inside", 1), (2, 3)))
    spec = dataclasses.replace(make_policy().spec, observation_size=8, observation_parts=parts)
    rng = np.random.default_rng(0)
    tensors = make_policy().tensors | {
        "actor.hidden1.kernel": rng.normal(size=(10, 16)).astype(np.float32),
        "observation.mean": np.zeros(8, np.float32),
        "observation.variance": np.ones(8, np.float32),
    }
    policy = dataclasses.replace(make_policy(), spec=spec, tensors=tensors)
    observation = {"door": 1, "inside": (None, np.arange(6.0).reshape(2, 3))}
    folder = policy.export(tmp_path / "policy")
    monkeypatch.syspath_prepend(str(folder))
    for name in ("act", "observe"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import act  # type: ignore[import-not-found]
    import observe  # type: ignore[import-not-found]

    row = observe.flatten(observation)
    assert row.tolist() == [0, 1, 0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(row, policy.flatten(observation)[0])
    np.testing.assert_array_equal(act.act(row), policy(observation))


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    policy = make_policy()
    policy.export(tmp_path / "policy")
    policy.export(tmp_path / "policy")  # once more
    (tmp_path / "policy" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"policy holds other files, e.g. \['thesis.tex'\]"):
        policy.export(tmp_path / "policy")


# --- which format, which policy ----------------------------------------------------------------------------


def test_safetensors_are_what_save_writes(tmp_path: Path) -> None:
    policy = make_policy()
    policy.export(tmp_path / "a.safetensors")
    policy.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no format is known by the suffix of 'policy.pt'"):
        make_policy().export(tmp_path / "policy.pt")
    with pytest.raises(ConfigError, match=r"unknown format 'torch'; choose one of safetensors, onnx, numpy"):
        make_policy().export(tmp_path / "policy", "torch")
    with pytest.raises(ConfigError, match=r"saved as an .onnx file, not as 'policy.bin'"):
        make_policy().export(tmp_path / "policy.bin", "onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    return train_trade(tmp_path_factory.mktemp("export") / "run", seed=3)


def test_a_preference_finds_what_run_policy_finds(run: ucb_moppo.Run) -> None:
    for conditioning in ("preference", "evaluated"):
        found = find_policy(run.path, [0.7, 0.3], None, conditioning)
        expected = run.policy([0.7, 0.3], conditioning)
        assert (found.index, found.weight.tolist()) == (expected.index, expected.weight.tolist())


def test_an_index_finds_that_policy_at_its_best_measured_weight(run: ucb_moppo.Run) -> None:
    """By held-out values where it has any; one that is not on the front by what stages have seen of it."""
    everything, seen, wanted = run.evaluated(), run.chosen_by(), np.array([0.4, 0.6])
    for index in range(run.num_policies):
        own = np.flatnonzero(everything.policy == index)
        measured = own[measured_rows(run.table())[own]]
        known = everything if len(measured) else seen
        best = max(measured if len(measured) else own, key=lambda row: float(known.returns[row] @ wanted))
        policy = find_policy(run.path, wanted, index, "evaluated")
        assert policy.index == index
        assert policy.weight.tolist() == everything.weights[best].tolist()
        assert find_policy(run.path, wanted, index).weight.tolist() == wanted.tolist()


def test_an_index_alone_is_enough_where_one_weight_is_on_the_front(
    run: ucb_moppo.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    front, everything = run.front(), run.evaluated()
    only = np.flatnonzero(everything.policy == 1)[:1]
    monkeypatch.setattr(ucb_moppo.Run, "front", lambda self: type(front)(*(c[only] for c in everything)))
    assert find_policy(run.path, None, 1).weight.tolist() == everything.weights[only[0]].tolist()
    with pytest.raises(ConfigError, match="policy 0 is on the front with 0 weights"):
        find_policy(run.path, None, 0)


def test_what_is_missing_or_too_much_is_said(run: ucb_moppo.Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name a weight per objective"):
        find_policy(run.path)
    with pytest.raises(ConfigError, match="there is no policy 7: the run has 0 to 1"):
        find_policy(run.path, [0.5, 0.5], 7)
    file = run.policy([1, 0]).save(tmp_path / "one.safetensors")
    assert find_policy(file).index == run.policy([1, 0]).index
    with pytest.raises(ConfigError, match=r"one.safetensors is a single policy"):
        find_policy(file, [0.5, 0.5])


def test_the_command_exports_what_python_does(
    run: ucb_moppo.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ucb_moppo.cli.main import main

    monkeypatch.chdir(tmp_path)
    main(["export", str(run.path), "--weight", "0.7", "0.3", "--format", "numpy"])
    assert capsys.readouterr().out.splitlines()[-1] == "policy"
    main(["export", str(run.path), "--weight", "0.7", "0.3", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == "policy.safetensors"
    assert told["weight"] == pytest.approx([0.7, 0.3])
    expected = run.policy([0.7, 0.3])
    rows = observations(expected)
    np.testing.assert_array_equal(ucb_moppo.load("policy.safetensors")(rows), expected(rows))  # type: ignore[operator]
    np.testing.assert_array_equal(act_alone(tmp_path / "policy", rows, tmp_path)["batch"], expected(rows))
