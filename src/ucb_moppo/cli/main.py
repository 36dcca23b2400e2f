"""The command line ``ucb-moppo``: typed, with help that teaches."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import fields
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import tyro

from ucb_moppo.cli.display import (
    StandardOutput,
    describe_evaluation,
    describe_indicators,
    describe_returns,
    front_on_terminal,
    policy_lines,
    problems_table,
    summary_lines,
)
from ucb_moppo.cli.options import (
    Bench,
    Choose,
    Completion,
    Doctor,
    Evaluate,
    Export,
    Interpolate,
    Problems,
    Report,
    Resume,
    Session,
    Show,
    Train,
    View,
)
from ucb_moppo.cli.settings_options import to_options, to_settings
from ucb_moppo.config import RunSettings, from_json, name_of, override, setting_types, settings_type, settle
from ucb_moppo.errors import ConfigError, UcbMoppoError, UcbMoppoWarning, nearest_names, require
from ucb_moppo.runtime.place import SAFE_PATH
from ucb_moppo.training.imports import announce_imports
from ucb_moppo.training.reporter import silence, tell
from ucb_moppo.training.stop import handled_by, leave_at_once

USAGE = """ucb-moppo: find a Pareto set of policies for problems with several objectives

  ucb-moppo train PROBLEM     train policies; PROBLEM is e.g. Hopper-v2, mo-hopper-v5 or package.module:env-id
  ucb-moppo resume RUN        continue a run that was interrupted, exactly where it stood
  ucb-moppo show RUN          what was run and found
  ucb-moppo evaluate RUN      evaluate a run's policies again, on more weights or episodes
  ucb-moppo report RUN...     a page with figures and tables about runs, or about the results of a sweep
  ucb-moppo view RUN          a page in your browser where a preference picks the policy
  ucb-moppo choose RUN        which policy to deploy, and what it will do
  ucb-moppo interpolate RUN   evaluate each policy on more and more weights, without training
  ucb-moppo bench SPEC.json   run methods × problems × seeds side by side and keep results to share
  ucb-moppo export RUN        one policy as a file, as ONNX, or as a folder that needs numpy alone
  ucb-moppo problems          what there is to train on
  ucb-moppo doctor            what this installation has and lacks, for a bug report
  ucb-moppo completion SHELL  completion of commands and options, for bash or zsh

Each command explains its options with --help; `ucb-moppo train PROBLEM --help` shows that problem's defaults.
"""

NO_PROBLEM = "name a problem to train on, e.g. `ucb-moppo train Hopper-v2`; `ucb-moppo problems` lists them"

if TYPE_CHECKING:
    from ucb_moppo.cli.progress import Reporter
    from ucb_moppo.store.run import Run

Command = TypeVar("Command")
HELP, VERSION = ("-h", "--help", "help"), ("-V", "--version")


def parse(command: type[Command], argv: Sequence[str], usage: str, default: Command | None = None) -> Command:
    """The options of one command; prints help and ends the program where they cannot be read."""
    markers = (tyro.conf.DisallowNone,)
    prog = f"ucb-moppo {usage}"
    if default is None:
        return tyro.cli(command, args=argv, prog=prog, config=markers)
    return tyro.cli(command, args=argv, prog=prog, config=markers, default=default)


# What a command needs is imported after its options are read: whoever asks for --help need not wait for JAX.


def train(argv: Sequence[str]) -> None:
    choice, settings = parse_train(argv)
    require(choice.videos >= 0, f"--videos is {choice.videos}; it must be at least 0")
    if choice.videos:
        from ucb_moppo.viewer.serve import check_installed

        check_installed()
    from ucb_moppo.training.train import train_run

    run = train_run(settings, choice.out, reporter_for(choice), choice.max_seconds)
    print_end(run, choice)
    if choice.videos:
        film(run, choice)
    print_next(run, choice)


def named_option(argv: Sequence[str], option: str) -> str | None:
    """The value that an option is given last, before all of them are read."""
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("--") else [word])]
    found = [after for word, after in pairwise(words) if word == option]
    return found[-1] if found else None


def given_options(argv: Sequence[str]) -> set[str]:
    """Names of the settings whose options are given."""
    return {word.partition("=")[0].removeprefix("--").replace("-", "_") for word in argv if word.startswith("--")}


def read_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """name=value pairs; a value is a number, true, false, null, a list in JSON, or text."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set {pair!r} is not of the form NAME=VALUE, e.g. --set gamma=0.99")
        try:
            settings[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            settings[name.strip().replace("-", "_")] = value
    return settings


def resume(argv: Sequence[str]) -> None:
    choice = parse(Resume, argv, "resume")
    from ucb_moppo.training.resume import resume_run

    reporter = reporter_for(choice)
    run = resume_run(choice.run, reporter, choice.force, choice.max_seconds, choice.executor, choice.ray_address)
    print_end(run, choice)
    print_next(run, choice)


def reporter_for(choice: Session) -> Reporter:
    """Tells of a run while it trains, in all the ways that were asked for."""
    from ucb_moppo.cli.tracking import make_reporters

    return make_reporters(choice.quiet, choice.tensorboard, choice.wandb)


def program_name() -> str:
    """How this program was called, so that what is printed can be typed again."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "ucb-moppo" and which("ucb-moppo") is None else "ucb-moppo"


def print_end(run: Run, choice: Session) -> None:
    """What there is to say about a run that has just finished."""
    if choice.json:
        print(json.dumps(run.summary | {"run": str(run.path)}, indent=2))
    elif not choice.quiet:
        print_run(run.path)


def print_next(run: Run, choice: Session) -> None:
    """The line that opens the page of a run, last, where it is seen and copied."""
    if not choice.json and not choice.quiet:
        print(f"look at it: {program_name()} view {run.path}")


def film(run: Run, choice: Train[Any]) -> None:
    """Film policies spread over the front; one that cannot be drawn is no fault of the run."""
    from ucb_moppo.viewer.renderer import render_ahead
    from ucb_moppo.viewer.video import find_video, spread_rows, video_path

    rows = spread_rows(run, choice.videos)
    render_ahead(run.path, rows, lambda text: None if choice.quiet else tell(text, sys.stderr))
    for row in rows if not choice.quiet and not choice.json else ():
        if (video := find_video(run, row)) is not None:
            print(f"video: {video_path(run, video)}   {describe_returns(run, video.returns)}")


def parse_train(argv: Sequence[str]) -> tuple[Train[Any], RunSettings]:
    """Options of `train`, read twice.

    Which there are depends on the method, and their defaults on the problem, the preset and --config; the problem
    is known only when all options have been read.
    """
    given = named_option(argv, "--config")
    file = {} if given is None else read_config(Path(given))
    method = named_option(argv, "--method") or str(file.get("method", "ucb"))
    kind = settings_type(method)
    usage = "train" if method == "ucb" else f"train --method {method}"
    check_names(given_options(argv), {*setting_types(kind), *(field.name for field in fields(Train))})
    options = [argument for argument in argv if argument not in HELP]
    first = parse_options(options, usage, kind("", method=method))
    if not first.settings.problem and not file and len(options) == len(argv):
        raise ConfigError(NO_PROBLEM)
    named = {"problem": first.settings.problem, "method": method, "preset": named_option(argv, "--preset")}
    data = file | {name: value for name, value in named.items() if value}
    choice = parse_options(argv, usage, from_json(data if file else {"problem": ""} | data))
    settings = to_settings(choice.settings, kind)
    settings.check()
    pairs = {name: value for name, value in read_settings(choice.set).items() if value is not None}
    read = {*file, *file.get("ppo", {})}
    return choice, settle(override(settings, **pairs), {*given_options(argv), *pairs}, read)


def check_names(given: Collection[str], known: Collection[str]) -> None:
    """Refuse an option that another library has, with what it is called here."""
    for name in sorted(given):
        ours = None if name in known else name_of(name, known)
        if ours is not None:
            raise ConfigError(f"unknown option {as_option(name)}; here it is {as_option(ours)}")


def as_option(name: str) -> str:
    """How a setting is given on the command line."""
    return f"--{name.replace('_', '-')}"


def parse_options(argv: Sequence[str], usage: str, defaults: RunSettings) -> Train[Any]:
    """One reading of the options of `train`, for the kind of settings that ``defaults`` are."""
    command, options = cast(Any, Train), to_options(defaults)
    choice: Train[Any] = parse(command[type(options)], argv, usage, Train(settings=options))
    return choice


def read_config(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise ConfigError(f"--config {path} cannot be read as JSON: {fault}") from fault
    if not isinstance(data, dict):
        raise ConfigError(f"--config {path} holds a {type(data).__name__}; it must be an object of settings")
    announce_imports(path, data)
    return data


def evaluate(argv: Sequence[str]) -> None:
    choice = parse(Evaluate, argv, "evaluate")
    from ucb_moppo.training.reevaluate import evaluate_run

    result = evaluate_run(
        choice.run,
        choice.weights_per_policy,
        choice.episodes,
        held_out=choice.held_out,
        out=choice.out,
        threads=choice.threads,
        sampled=None if choice.actions is None else choice.actions == "sampled",
        discount=choice.discount,
    )
    if choice.json:
        print(json.dumps(result, indent=2))
        return
    StandardOutput().print_lines(describe_evaluation(result))
    if choice.out is not None:
        print(f"front: {choice.out}")


def report(argv: Sequence[str]) -> None:
    choice = parse(Report, argv, "report")
    from ucb_moppo.report import write_report

    print(write_report(choice.runs, choice.out))


def interpolate(argv: Sequence[str]) -> None:
    choice = parse(Interpolate, argv, "interpolate")
    from ucb_moppo.training.interpolate import interpolate_run

    def say(result: dict[str, Any]) -> None:
        if not choice.quiet:
            found = describe_indicators(result)
            print(f"{result['weights_per_policy']} weights per policy: {found}", file=sys.stderr)

    results = interpolate_run(
        choice.run,
        choice.weights,
        choice.episodes,
        held_out=choice.held_out,
        threads=choice.threads,
        on_result=say,
    )
    if choice.json:
        print(json.dumps(results, indent=2))


def bench(argv: Sequence[str]) -> None:
    choice = parse(Bench, argv, "bench")
    from ucb_moppo.bench.sweep import describe_end, describe_sweep, make_sweep, run_sweep

    sweep = make_sweep(
        choice.spec,
        runs=choice.runs,
        out=choice.out,
        executor=choice.executor,
        cores=choice.cores,
        ray_address=choice.ray_address,
    )
    if choice.dry_run:
        print(describe_sweep(sweep))
        return
    endings = run_sweep(sweep)
    print(describe_end(sweep, endings))
    if not all(ending.succeeded for ending in endings.values()):
        raise SystemExit(1)


def view(argv: Sequence[str]) -> None:
    choice = parse(View, argv, "view")
    from ucb_moppo.viewer.serve import serve

    serve(
        choice.run,
        choice.compare,
        host=choice.host,
        port=choice.port,
        render=choice.render,
        open_browser=not choice.no_browser,
    )


def export(argv: Sequence[str]) -> None:
    choice = parse(Export, argv, "export")
    from ucb_moppo.store.export import default_name, describe_policy, export_policy, find_policy
    from ucb_moppo.store.run import load_run
    from ucb_moppo.training.imports import import_utility

    if choice.run.is_dir():
        import_utility(load_run(choice.run))
    policy = find_policy(choice.run, choice.weight or None, choice.policy, choice.conditioning)
    path = export_policy(policy, choice.out or default_name(choice.format), choice.format)
    if choice.json:
        print(json.dumps(describe_policy(policy) | {"index": policy.index, "path": str(path)}, indent=2))
    else:
        StandardOutput().print_lines([*policy_lines(policy), path])


def doctor(argv: Sequence[str]) -> None:
    choice = parse(Doctor, argv, "doctor")
    from ucb_moppo.cli.doctor import describe_installation, installation_lines

    found = describe_installation()
    print(json.dumps(found, indent=2) if choice.json else "\n".join(installation_lines(found)))


def completion(argv: Sequence[str]) -> None:
    choice = parse(Completion, argv, "completion")
    from ucb_moppo.cli.completion import make_script

    print(make_script(choice.shell, COMMANDS), end="")


def choose(argv: Sequence[str]) -> None:
    choice = parse(Choose, argv, "choose")
    from ucb_moppo.cli.choosing import run_choice

    run_choice(choice)


def show(argv: Sequence[str]) -> None:
    choice = parse(Show, argv, "show")
    require(choice.rows >= 0, f"--rows is {choice.rows}; it must be at least 0")
    print_run(choice.run, choice.rows, as_json=choice.json)


def print_run(path: Path, rows: int = 10, as_json: bool = False) -> None:
    """What was found: the indicators, a part of the front, and where the run lies."""
    from ucb_moppo.store.run import load_run

    run = load_run(path)
    if as_json:
        print(json.dumps(run.summary | {"config": run.config}, indent=2))
        return
    console = StandardOutput()
    console.print_lines(summary_lines(run))
    console.print(front_on_terminal(run, rows))


def problems(argv: Sequence[str]) -> None:
    choice = parse(Problems, argv, "problems")
    from ucb_moppo.envs import describe_problems, list_mo_gymnasium_ids
    from ucb_moppo.store.policy_file import spec_to_json

    specs = describe_problems(choice.protocol)
    others = list_mo_gymnasium_ids() if choice.all or choice.json else []
    if choice.json:
        print(json.dumps({"problems": [spec_to_json(s) for s in specs], "mo_gymnasium": others}, indent=2))
        return
    StandardOutput().print(problems_table(specs))
    print("\n".join(others) if others else "Any MO-Gymnasium id works as well; --all lists them.")


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "show": show,
    "report": report,
    "view": view,
    "choose": choose,
    "interpolate": interpolate,
    "bench": bench,
    "export": export,
    "problems": problems,
    "doctor": doctor,
    "completion": completion,
}
TRAINING = (train, resume, bench)
"""Commands that a signal stops at once until training begins, which from then on saves first."""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point. An error the user can act on is one line and exit code 2, a signal 128 + its number."""
    warnings.showwarning = print_warning
    os.environ |= SAFE_PATH
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            run_command(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever reads, e.g. `head`, has seen enough
        silence(sys.stdout)
    except UcbMoppoError as fault:
        tell(f"ucb-moppo: {fault}", sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt as stop:
        tell(f"ucb-moppo: {stop or 'interrupted'}", sys.stderr)
        raise SystemExit(getattr(stop, "exit_code", 130)) from None


def run_command(arguments: Sequence[str]) -> None:
    """What the first word names, told the rest."""
    if not arguments or arguments[0] in HELP:
        print(USAGE, end="")
        return
    if arguments[0] in VERSION:
        print(f"ucb-moppo {version('ucb-moppo')}")
        return
    command = COMMANDS.get(arguments[0])
    if command is None:
        raise ConfigError(f"unknown command {arguments[0]!r}; {nearest_names(arguments[0], COMMANDS)}")
    with handled_by(leave_at_once) if command in TRAINING else nullcontext():
        command(arguments[1:])


def print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """One line, without the place in the source unless the warning is somebody else's."""
    place = "" if issubclass(category, UcbMoppoWarning) else f" ({category.__name__}, {filename}:{lineno})"
    tell(f"ucb-moppo: warning: {message}{place}", sys.stderr)
