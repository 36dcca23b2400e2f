"""The tables of one run."""

import csv
import io

from sample_runs import SampleRun

from ucb_moppo.report.load import load_data
from ucb_moppo.report.run_tables import points_table, summary_table
from ucb_moppo.report.table import to_csv


def test_summary_is_rounded_for_the_eye_and_whole_in_the_csv(tmp_path):
    data = load_data(SampleRun(found={"hypervolume": 21962027.25, "cardinality": 14}).write(tmp_path / "one"))
    table = summary_table(data)
    shown, bare = dict(table.rows), dict(csv.reader(io.StringIO(to_csv(table))))
    assert (shown["HV"], bare["HV"]) == ("2.196e7", "21962027.25")
    assert (shown["points on the front"], bare["points on the front"]) == ("14", "14")
    assert (shown["training steps"], bare["training steps"]) == ("9,000", "9000")


def test_points_table_is_the_front(tmp_path):
    data = load_data(SampleRun().write(tmp_path / "one"))
    _, rows = points_table(data).plain
    assert len(rows) == int(data.on_front.sum())
    firsts = [row[3] for row in rows]
    assert firsts == sorted(firsts)
