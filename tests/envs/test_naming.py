"""A problem's name says which environment it is and what it is made with."""

import importlib.metadata

import gymnasium
import numpy as np
import pytest
from probe_envs import Trade

from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.envs import found_by_import, make_batch, make_spec, registered_here_alone
from ucb_moppo.envs.naming import read_name
from ucb_moppo.errors import ConfigError
from ucb_moppo.runtime.executor import choose_executor


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


@pytest.fixture
def here_alone():
    """The id of a problem that this program registers, under no module."""
    gymnasium.register("HereAlone-v0", Trade, max_episode_steps=5)
    yield "HereAlone-v0"
    del gymnasium.registry["HereAlone-v0"]


@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_processes_are_refused_for_a_problem_that_they_would_not_find(here_alone, executor):
    spec, settings = make_spec(here_alone), override(default_settings(here_alone), steps=400_000)
    assert registered_here_alone(here_alone)
    with pytest.raises(ConfigError, match=r"registered by this program alone.*module:HereAlone-v0"):
        resolve(override(settings, executor=executor, shards=2), spec)
    assert resolve(override(settings, executor="local", shards=2), spec).shards == 2


def test_what_is_left_open_runs_where_its_problem_is_known(here_alone):
    spec, settings = make_spec(here_alone), override(default_settings(here_alone), steps=400_000)
    assert resolve(settings, spec).shards == 1
    assert choose_executor(resolve(override(settings, shards=2), spec)) == "local"


@pytest.mark.parametrize("name", ["Hopper-v2", "fruit-tree-v0@depth=5", "probe_envs:probe/Trade-v0", "missing-v0"])
def test_what_others_find_or_nobody_knows_is_not_here_alone(name):
    assert not registered_here_alone(name)


def test_what_the_main_module_registers_is_here_alone(here_alone):
    assert registered_here_alone(f"__main__:{here_alone}")


def test_what_an_installed_package_registers_with_gymnasium_is_found(here_alone, monkeypatch):
    plugin = importlib.metadata.EntryPoint("probe", "probe_lab.register:all", "gymnasium.envs")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [plugin])
    monkeypatch.setattr(gymnasium.registry[here_alone], "entry_point", "probe_lab.envs:Trade")
    assert found_by_import(here_alone)
    assert not registered_here_alone(here_alone)
