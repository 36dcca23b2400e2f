"""What a deployed policy does is an action of the environment's own space: its shape and its kind of numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gymnasium import spaces

from ucb_moppo.envs.flattening import describe_action
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.policy.networks import init_params
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import ActionSpec, EnvSpec
from ucb_moppo.store.policy_file import load_policy, read_spec, spec_to_json

SPACES = [
    spaces.Box(0.0, 2.0, (2,)),
    spaces.Box(-1.0, 1.0, (2, 2)),
    spaces.Box(-3.0, 3.0, ()),
    spaces.Box(-1.0, 1.0, (3,), np.float64),
    spaces.Box(-1.0, 1.0, (2,), np.float16),
    spaces.Discrete(4, start=-1),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiDiscrete([[3, 4], [2, 2]], start=[[0, 1], [5, -2]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary([2, 3]),
]


def make_policy(action: ActionSpec) -> Policy:
    """A policy of random parameters, whose outputs leave the range now and then."""
    rng = np.random.default_rng(0)
    params = init_params(
        rng,
        observation_size=3,
        num_objectives=2,
        action_size=action.size,
        discrete=action.discrete,
        cells=8,
        log_std=0.0,
        choices=action.choices,
    )["actor"]
    tensors = {f"actor.{name}": (array if name == "log_std" else 3 * array) for name, array in params.items()}
    tensors = {name: 30 * a if "head" in name else a for name, a in tensors.items()}
    tensors |= {f"observation.{name}": np.zeros(3, np.float32) for name in ("mean", "variance")}
    tensors |= {"observation.count": np.zeros((), np.float32)}
    spec = EnvSpec("Made-v0", ("speed", "thrift"), 3, action, 10, (0.0, 0.0))
    return Policy(spec, 0, np.array([0.5, 0.5]), np.zeros(2), tensors)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_what_a_policy_does_is_in_the_space(space: spaces.Space) -> None:
    policy, rng = make_policy(describe_action("made", space)), np.random.default_rng(1)
    rows = rng.normal(size=(20, 3)).astype(np.float32)
    batch = policy(rows)
    assert batch.shape == (20, *(space.shape or ()))
    assert batch.dtype == space.dtype
    for row, action in zip(rows, batch, strict=True):
        for done in (policy(row), policy.sample(row, rng)):
            assert space.contains(done if isinstance(space, spaces.Discrete) else np.asarray(done))
        np.testing.assert_allclose(policy(row), action, rtol=2e-3, atol=1e-6)  # one row rounds otherwise


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_saved_policy_knows_the_space(space: spaces.Space, tmp_path) -> None:  # type: ignore[no-untyped-def]
    policy = make_policy(describe_action("made", space))
    loaded = load_policy(policy.save(tmp_path / "policy.safetensors"))
    assert loaded.spec == policy.spec


@pytest.mark.parametrize(
    "changed", [{"shape": [3]}, {"shape": [2, 2]}, {"dtype": "object"}, {"dtype": "O"}, {"shape": [-2]}]
)
def test_a_file_that_says_otherwise_is_refused(changed: dict[str, object], tmp_path) -> None:  # type: ignore[no-untyped-def]
    data = spec_to_json(make_policy(describe_action("made", SPACES[0])).spec)
    data["action"] |= changed
    with pytest.raises(RunFormatError, match="does not describe a problem"):
        read_spec(data, tmp_path)


def test_files_of_earlier_versions_are_read_as_they_were() -> None:
    """They say no shape and no kind of numbers: actions are rows of float64."""
    plain = ActionSpec(False, 2, (-1.0, -1.0), (1.0, 1.0))
    assert plain.own_shape == (2,)
    assert not {"shape", "dtype"} & spec_to_json(make_policy(plain).spec)["action"].keys()
    assert make_policy(plain)(np.zeros((4, 3), np.float32)).dtype == np.float64
    assert dataclasses.replace(plain, discrete=True).own_shape == ()


def test_an_action_of_no_numbers_is_refused() -> None:
    with pytest.raises(ConfigError, match="hold no number"):
        describe_action("made", spaces.Box(-1.0, 1.0, (0,)))
