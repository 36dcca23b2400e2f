"""A problem's name says which environment it is and what it is made with."""

import numpy as np
import pytest

from ucb_moppo.config import default_settings
from ucb_moppo.envs import found_by_import, make_batch, make_spec
from ucb_moppo.envs.naming import read_name
from ucb_moppo.errors import ConfigError


def test_a_name_has_three_parts():
    assert read_name("my_lab.envs:Valley-v0@depth=5,slope=0.5,steep=true,floor=null,kind=sand") == (
        "my_lab.envs",
        "Valley-v0",
        {"depth": 5, "slope": 0.5, "steep": True, "floor": None, "kind": "sand"},
    )
    assert read_name("fruit-tree-v0") == ("", "fruit-tree-v0", {})


@pytest.mark.parametrize("name", ["fruit-tree-v0@", "fruit-tree-v0@depth", "fruit-tree-v0@=5", "a-v0@b=1,,c=2"])
def test_what_is_no_option_is_refused_with_an_example(name):
    with pytest.raises(ConfigError, match="@depth=5"):
        read_name(name)


def test_an_option_given_twice_is_refused():
    with pytest.raises(ConfigError, match="twice"):
        read_name("fruit-tree-v0@depth=5,depth=6")


@pytest.mark.parametrize(("depth", "leaves"), [(5, 32), (7, 128)])
def test_a_fruit_tree_has_the_depth_that_its_name_says(depth, leaves):
    batch = make_batch(f"fruit-tree-v0@depth={depth}", 2)
    batch.reset(np.arange(2), [0, 1])
    for step in range(1, depth + 1):
        taken = batch.step(np.zeros(2, int))
        assert taken.terminated.tolist() == [step == depth] * 2
    assert len(batch._envs[0].unwrapped.pareto_front(gamma=1.0)) == leaves
    # Known by its id, whatever it is made with: objectives and reference point are fruit-tree's.
    assert batch.spec.objectives == make_spec("fruit-tree-v0").objectives
    assert batch.spec.reference_point == (0.0,) * 6
    assert found_by_import(f"fruit-tree-v0@depth={depth}")


def test_an_option_that_the_environment_does_not_have_is_named():
    with pytest.raises(ConfigError, match="options after an @"):
        make_batch("fruit-tree-v0@height=5", 1)


def test_a_body_is_tuned_alike_whatever_it_is_made_with():
    usual = default_settings("mo-hopper-v5")
    for name in ("adapter:mo-hopper-v5", "mo-hopper-v5@terminate_when_unhealthy=false"):
        assert default_settings(name).search == usual.search
