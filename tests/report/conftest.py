"""What tests of several tables compare."""

import pytest
from sample_runs import SampleRun

from ucb_moppo.report.load import load_all
from ucb_moppo.report.sections import Section, make_sections


@pytest.fixture
def swimmer(tmp_path) -> Section:
    """Two methods on Swimmer-v2: ucb with hypervolumes of 10, 20 and 60, mean with 30."""
    paths = []
    for method, seed, hv in (("ucb", 0, 10.0), ("ucb", 1, 20.0), ("ucb", 2, 60.0), ("mean", 0, 30.0)):
        found = {"hypervolume": hv, "expected_utility": hv / 10}
        name = f"{method}{seed}"
        paths.append(SampleRun(problem="Swimmer-v2", method=method, seed=seed, found=found).write(tmp_path / name))
    (section,) = make_sections(load_all(paths))
    return section
