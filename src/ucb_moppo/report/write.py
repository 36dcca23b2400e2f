"""Writes a report: gathers figures and tables of one run or several, their files and the page that holds them."""

from __future__ import annotations

import html
import importlib.metadata
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.report import benchmark, interactive
from ucb_moppo.report.curves import (
    COST_AXES,
    bands_picture,
    costs_picture,
    indicators_picture,
    interpolation_picture,
    kept_picture,
)
from ucb_moppo.report.fronts import (
    front_picture,
    growth_picture,
    overlay_pairs_picture,
    overlay_picture,
    pairs_picture,
)
from ucb_moppo.report.load import load_all
from ucb_moppo.report.method_tables import aggregate_table, comparison_table, kept_table
from ucb_moppo.report.page import Block, figure_element, folded, make_page
from ucb_moppo.report.paired import paired_table
from ucb_moppo.report.paper_table import paper_table
from ucb_moppo.report.protocols import USUAL_PROTOCOL
from ucb_moppo.report.run_tables import points_table, summary_table
from ucb_moppo.report.runs import ComparedRun, RunData
from ucb_moppo.report.sections import Section, all_labels, by_protocol, make_sections
from ucb_moppo.report.slug import slug
from ucb_moppo.report.style import MATPLOTLIB_SETTINGS, Picture, save_picture
from ucb_moppo.report.table import Table, to_html, write_table
from ucb_moppo.report.weight_search import selection_picture, surrogate_picture
from ucb_moppo.report.words import describe_runs
from ucb_moppo.store.guarded import write_below
from ucb_moppo.training.interpolate import read_study

PAGE = "index.html"


def write_report(paths: Sequence[str | Path], out: str | Path) -> Path:
    """Write the report of the runs at ``paths`` into the directory ``out``; the path of its page."""
    out = Path(out)
    if not paths:
        raise ConfigError("name at least one run, e.g. `ucb-moppo report runs/Hopper-v2-ucb-seed0 --out report`")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file; name a directory")
    runs = load_all(paths)
    command = shlex.join(["ucb-moppo", "report", *map(str, paths), "--out", str(out)])
    with matplotlib.rc_context(MATPLOTLIB_SETTINGS):
        return ReportWriter(runs, out, command).write()


class ReportWriter:
    """Collects the blocks of a page and writes its files on the way."""

    def __init__(self, runs: list[ComparedRun], out: Path, command: str) -> None:
        self.runs, self.out, self.command = runs, out, command
        self.blocks: list[Block] = []
        self.scripts: list[str] = []

    def write(self) -> Path:
        sections = make_sections(self.runs)
        for protocol, its in by_protocol(sections).items():
            if len(its) > 1:
                self._add_overview(protocol, its)
        for section in sections:
            self._add_section(section)
        for run in self.runs:
            if isinstance(run, RunData):
                self._add_run(run)
        page = make_page(self._title(sections), describe_runs(self.runs), self.blocks, self._footer(), self.scripts)
        write_below(self.out, PAGE, page.encode())
        return self.out / PAGE

    def _title(self, sections: list[Section]) -> str:
        if len(self.runs) == 1:
            run = self.runs[0]
            return f"{run.problem}, {run.method}, seed {run.seed}"
        return f"{len(self.runs)} runs on " + ", ".join(section.title for section in sections)

    def _add_overview(self, protocol: str, sections: list[Section]) -> None:
        """What several problems of one protocol say together."""
        found = [benchmark.overview_table(sections), aggregate_table(sections)]
        if len(all_labels(sections)) > 1:
            found += comparisons(sections)
        if protocol == USUAL_PROTOCOL:
            title = "All problems"
        else:
            title = f"All problems under protocol {protocol}"
            found = [replace(table, name=f"{table.name}-{protocol}") for table in found]
        self._block(title).parts += [self._table(table) for table in found]

    def _add_section(self, section: Section) -> None:
        """What runs of one problem say together; a run that is alone speaks for itself further down."""
        paper = paper_table(section)
        if len(section.runs) == 1 and isinstance(section.first, RunData):
            if paper is not None:
                self._block(f"{section.title} in print").parts.append(self._table(paper))
            return
        parts = self._block(f"{section.title}: methods side by side").parts
        parts.append(self._table(comparison_table(section)))
        if len(section.groups) > 1:
            parts += [self._table(table) for table in comparisons([section])]
        parts += [self._figure(bands_picture(section, over)) for over in COST_AXES]
        parts.append(self._table(benchmark.efficiency_table(section)))
        parts.append(self._figure(overlay_picture(section)))
        if len(section.first.objectives) > 3:
            parts.append(self._figure(overlay_pairs_picture(section)))
        kept = kept_picture(section)
        parts += [] if kept is None else [self._figure(kept)]
        parts += [self._table(make(section)) for make in (kept_table, benchmark.costs_table)]
        if paper is not None:
            parts.append(self._table(paper))
        studies = [(run, study) for run in section.runs if isinstance(run, RunData) and (study := _study(run))]
        if len(studies) > 1:
            parts.append(self._figure(interpolation_picture(studies)))

    def _add_run(self, run: RunData) -> None:
        """What one run says."""
        parts = self._block(f"Run {run.name}").parts
        parts.append(self._table(summary_table(run)))
        parts.append(self._figure(front_picture(run)))
        if len(run.objectives) > 3:
            parts.append(self._figure(pairs_picture(run)))
        if len(run.objectives) == 3:
            parts.append(self._rotatable(run))
        parts.append(folded("All points of the front", self._table(points_table(run))))
        pictures = [
            indicators_picture(run),
            growth_picture(run),
            selection_picture(run),
            surrogate_picture(run),
            costs_picture(run),
        ]
        parts += [self._figure(picture) for picture in pictures if picture is not None]
        if pictures[3] is None:
            parts.append(f'<p class="note">Method {html.escape(run.method)} has trained no surrogate here.</p>')
        study = _study(run)
        if study is not None:
            parts.append(self._figure(interpolation_picture([(run, study)])))

    def _block(self, title: str) -> Block:
        self.blocks.append(Block(title))
        return self.blocks[-1]

    def _figure(self, picture: Picture) -> str:
        name = slug(picture.name)
        svg = save_picture(picture, self.out, name)
        return figure_element(svg, picture.title, picture.caption, name)

    def _table(self, table: Table) -> str:
        write_table(table, self.out)
        return to_html(table)

    def _rotatable(self, run: RunData) -> str:
        if not interactive.is_available():
            return f'<p class="note">{html.escape(interactive.MISSING)}</p>'
        if not self.scripts:
            self.scripts.append(interactive.plotly_script())
        caption = f"The front to turn with the mouse, coloured by weight. Shown: {describe_runs([run])}."
        return f"<figure>{interactive.rotatable_html(run)}<figcaption>{html.escape(caption)}</figcaption></figure>"

    def _footer(self) -> str:
        version = importlib.metadata.version("ucb-moppo")
        return f"Made by ucb-moppo {html.escape(version)} with <code>{html.escape(self.command)}</code>"


def comparisons(sections: Sequence[Section]) -> list[Table]:
    """Whether one method beats another, and by how much where seeds can be paired."""
    paired = paired_table(sections)
    return [benchmark.improvement_table(sections), *([] if paired is None else [paired])]


def _study(run: RunData) -> dict[str, NDArray] | None:
    """The interpolation study in a run's directory, if it was made."""
    return read_study(run.path)
