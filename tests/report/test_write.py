"""The report as files: complete, self-contained, and naming what it shows."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from sample_runs import SampleRun

from ucb_moppo.cli.main import main
from ucb_moppo.errors import ConfigError, UnsafeFileError
from ucb_moppo.report import interactive, write_report
from ucb_moppo.training.interpolate import STUDY_COLUMNS

ONE_RUN = ("front", "indicators", "growth", "selection", "surrogate", "costs")


class Links(HTMLParser):
    """Everything a page would fetch."""

    def __init__(self, text):
        super().__init__()
        self.fetched = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.fetched += [found[name] for name in ("src", "srcset", "data", "poster") if found.get(name)]
        if tag == "link":
            self.fetched.append(found.get("href"))


def test_report_of_one_run(tmp_path, capsys):
    run = SampleRun(problem="Swimmer-v2", horizon=50).write(tmp_path / "one")
    main(["report", str(run), "--out", str(tmp_path / "out")])
    page = (tmp_path / "out" / "index.html").read_text()
    assert capsys.readouterr().out.strip() == str(tmp_path / "out" / "index.html")
    assert all(link.startswith("data:") for link in Links(page).fetched)
    assert "@import" not in page
    for name in ONE_RUN:
        png, svg = (tmp_path / "out" / "figures" / f"{name}-one.{kind}" for kind in ("png", "svg"))
        assert png.read_bytes().startswith(b"\x89PNG")
        assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    for name in ("summary-one", "front-one", "paper-Swimmer-v2"):
        for kind in ("csv", "md", "tex"):
            assert (tmp_path / "out" / "tables" / f"{name}.{kind}").stat().st_size
    assert page.count("run one · seed 0 · 9,000 training steps") >= len(ONE_RUN)


def test_report_of_several_runs(tmp_path):
    paths = [str(SampleRun(method=m, num_stages=3).write(tmp_path / f"{m}0")) for m in ("ucb", "random")]
    paths.append(str(SampleRun(num_objectives=3, num_stages=3).write(tmp_path / "three")))
    with (tmp_path / "ucb0" / "interpolation.csv").open("w") as file:
        file.write(",".join(STUDY_COLUMNS) + "\n10,1,1,9,3,5,1,0\n20,2,1,4,6,10,1,0\n")
    main(["report", *paths, "--out", str(tmp_path / "out")])
    page = (tmp_path / "out" / "index.html").read_text()
    names = {path.stem for path in (tmp_path / "out" / "figures").glob("*.png")}
    assert {"bands-paper-problem-reference-point-0-0", "interpolation-ucb0", "front-three"} <= {
        re.sub(r"-protocol-\w+-horizon-\d+", "", name) for name in names
    }
    assert "has trained no surrogate" in page
    assert "Methods over all problems" in page
    assert (tmp_path / "out" / "tables" / "aggregate.tex").exists()
    if interactive.is_available():
        assert "scatter3d" in page


def test_a_report_does_not_write_through_links_in_its_folder(tmp_path):
    run = str(SampleRun(num_stages=2).write(tmp_path / "one"))
    out, victim, outside = (tmp_path / name for name in ("out", "victim", "outside"))
    for folder in (out / "tables", out / "figures", outside):
        folder.mkdir(parents=True)
    victim.write_bytes(b"precious")
    planted = [out / "index.html", out / "tables/summary-one.csv", out / "figures/front-one.png"]
    for path in planted:
        path.symlink_to(victim)
    main(["report", run, "--out", str(out)])
    assert victim.read_bytes() == b"precious"
    assert not any(path.is_symlink() for path in planted)
    (out / "tables").rename(tmp_path / "tables")
    (out / "tables").symlink_to(outside)
    with pytest.raises(UnsafeFileError, match="tables is a link"):
        write_report([run], out)
    assert list(outside.iterdir()) == []


def test_nothing_to_report(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["report"])
    assert stopped.value.code == 2
    assert "at least one run" in capsys.readouterr().err


def test_out_that_is_a_file(tmp_path):
    run = SampleRun().write(tmp_path / "one")
    (tmp_path / "out").write_text("")
    from ucb_moppo.report import write_report

    with pytest.raises(ConfigError, match="is a file"):
        write_report([run], tmp_path / "out")
