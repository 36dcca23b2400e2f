"""What the commands can be told: a dataclass for each, whose docstrings are its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

import tyro

from ucb_moppo.cli.settings_options import executor_choice, hint, named_choice, open_choice
from ucb_moppo.envs import PROTOCOLS
from ucb_moppo.registry import EXECUTORS

PAPER_COUNTS = (10, 20, 30, 40, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500)
"""Weights per policy in the paper's interpolation study."""

Actions = Literal["deterministic", "sampled"]
Format = Literal["safetensors", "onnx", "numpy"]

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""An option of a command, given or not; a setting, which may be on by default, has a --no-NAME as well."""

Options = TypeVar("Options")
"""Settings as `settings_options` shows them to the command line."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """What every command that trains can be told."""

    max_seconds: Annotated[float | None, hint("no limit")] = None
    """End the run cleanly after this wall time, counted from now on, with what was found until then."""
    quiet: Flag = False
    """Print nothing while training."""
    json: Flag = False
    """Print the summary as JSON at the end."""
    tensorboard: Flag = False
    """Write TensorBoard event files into the run's directory as well (pip install 'ucb-moppo[tensorboard]')."""
    wandb: Flag = False
    """Log to Weights & Biases too, offline unless WANDB_MODE says otherwise (pip install 'ucb-moppo[wandb]')."""


@dataclass(frozen=True)
class Train(Session, Generic[Options]):
    """Train a Pareto set of policies for a problem with several objectives.

    PROBLEM is one of the built-in problems (`ucb-moppo problems` lists them), any other MO-Gymnasium id such as
    minecart-v0, or package.module:env-id for an environment of your own. An id may end in what the environment
    is to be made with, as in fruit-tree-v0@depth=5; adapter: before one of MO-Gymnasium's takes its own environment
    instead of the built-in one. Defaults are those of the preset.

    --method also names others' methods to compare with, trained on the same problems, evaluated and counted in the
    same way. Beside one of them --help shows its options; its own settings are the published ones for the problem.
    """

    settings: Annotated[Options, tyro.conf.arg(name="")]
    out: Annotated[Path | None, hint("a new one under runs/")] = None
    """Directory of the run."""
    config: Annotated[Path | None, hint("none")] = None
    """JSON file with settings, e.g. the config.json of another run; options given here stand above it."""
    set: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE"), hint("none")
    ] = ()
    """A setting by name, also one of another method's own, e.g. --set gamma=0.99; may be repeated."""
    videos: int = 0
    """Policies to film once training has ended, spread over the front (pip install 'ucb-moppo[viewer]')."""


@dataclass(frozen=True)
class Resume(Session):
    """Continue a run from its newest good checkpoint; it ends as if it had never been interrupted."""

    run: tyro.conf.Positional[Path]
    """Directory of the run."""
    force: Flag = False
    """Continue even if config, problem or library versions have changed since it was saved."""
    executor: Annotated[
        str | None, executor_choice("Where shards of policies run from now on"), hint("the run's")
    ] = None
    """Where shards of policies run from now on; the result is the same."""
    ray_address: Annotated[str | None, hint("the run's")] = None
    """Address of a running Ray cluster, for --executor ray."""


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the policies of a run: returns from fixed initial states. The run stays as it is."""

    run: tyro.conf.Positional[Path]
    """Directory of the run."""
    weights_per_policy: Annotated[int | None, hint("the run's probes")] = None
    """Evenly spaced weights of its sub-space that each policy is evaluated on."""
    episodes: Annotated[int | None, hint("as many as in the run")] = None
    """Episodes per weight that the front is chosen by; their returns are averaged."""
    held_out: Annotated[int | None, hint("as many as in the run")] = None
    """Episodes from other initial states that the front is measured by (0: by those that it is chosen by)."""
    actions: Annotated[Actions | None, open_choice(Actions), hint("as in the run")] = None
    """The mean or likeliest action, or one drawn from the policy, as in training; the same draws every time."""
    discount: Annotated[float | None, hint("as in the run")] = None
    """Discount of the returns (1: undiscounted)."""
    out: Annotated[Path | None, hint("nowhere")] = None
    """Write the evaluated front to this CSV file."""
    threads: int = 0
    """Simulation threads (0: one per core)."""
    json: Flag = False
    """Print the result as JSON."""


@dataclass(frozen=True)
class Show:
    """Show what was run and found."""

    run: tyro.conf.Positional[Path]
    """Directory of the run."""
    rows: int = 10
    """Rows of the front to print."""
    json: Flag = False
    """Print the summary as JSON."""


@dataclass(frozen=True)
class Report:
    """Write one self-contained HTML page about runs and results, with its figures and tables as files."""

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")
    ] = ()
    """Directories of runs, result files, and directories of result files such as `ucb-moppo bench` writes."""
    out: Path = Path("report")
    """Directory of the report."""


@dataclass(frozen=True)
class Interpolate:
    """Evaluate each policy on more and more weights of its sub-space, without training.

    The table is kept in the run, where `ucb-moppo report` finds it. Each front is chosen by some episodes and
    measured by others, like that of the run. The paper's study, of single episodes that did both, is
    --episodes 1 --held-out 0: 2,850 episodes per policy. The default takes twice as many and those of the fronts.
    """

    run: tyro.conf.Positional[Path]
    """Directory of the run."""
    weights: tuple[int, ...] = PAPER_COUNTS
    """How many weights per policy, one evaluation for each."""
    episodes: Annotated[int | None, hint("as many as in the run")] = None
    """Episodes per weight, from the same initial states for all of them, by whose mean a front is chosen."""
    held_out: Annotated[int | None, hint("as many as in the run")] = None
    """Episodes from other initial states, by which that front is measured (0: by those that chose it)."""
    threads: int = 0
    """Simulation threads (0: one per core)."""
    quiet: Flag = False
    """Print nothing while evaluating."""
    json: Flag = False
    """Print the result as JSON."""


@dataclass(frozen=True)
class Bench:
    """Run a sweep of methods × problems × seeds, each cell an ordinary run in a directory of its own.

    Run again, it skips what is finished, continues what was broken off and tries again what failed. Ctrl-C stops
    it so that it can continue. SPEC is a JSON file: name, problems, methods, seeds, steps, settings.
    """

    spec: tyro.conf.Positional[Path]
    """JSON file that says what to run."""
    out: Annotated[Path | None, hint("results/NAME")] = None
    """Directory of the result files, a small JSON file per cell."""
    runs: Annotated[Path | None, hint("runs/NAME")] = None
    """Directory of the runs."""
    cores: int = 0
    """Cores to use, shared out among the cells that run side by side (0: all)."""
    executor: Annotated[str, named_choice(EXECUTORS, "Where cells run")] = "processes"
    """Where cells run: side by side on this machine or on a cluster, or one after the other, right here."""
    ray_address: Annotated[str | None, hint("a Ray of its own on this machine")] = None
    """Address of a running Ray cluster, for --executor ray; all nodes must see the same files."""
    dry_run: Flag = False
    """Check the sweep, say what would be done and do nothing."""


@dataclass(frozen=True)
class View:
    """Open a page where a preference picks the policy: the front, a slider per objective, videos, the history.

    Served from this machine alone until you press Ctrl-C. It reads the run and adds nothing to it but videos.
    """

    run: tyro.conf.Positional[Path]
    """Directory of the run; it may still be training."""
    compare: Annotated[Path | None, hint("none")] = None
    """A second run of the same problem to lay over the first."""
    port: int = 8050
    """Port of the page (0: any free one)."""
    host: str = "127.0.0.1"
    """Address to serve on; on anything but this machine's own the page asks for the token that is printed."""
    render: Flag = False
    """Render the videos of all policies a preference can pick before the page opens."""
    no_browser: Flag = False
    """Print the address and do not open a browser."""


Repeated = tyro.conf.UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True)
class Choose:
    """Choose the one policy to deploy, and see what it will do.

    In a terminal you are asked what must hold, then A or B, at most ten times; the options below say the same
    without one. A part of an objective's name is enough to name it; a row of front.csv, from 0, names a policy
    under a weight. What is chosen then acts in fresh episodes, from initial states that nothing was chosen by.
    """

    run: tyro.conf.Positional[Path]
    """Directory of the run."""
    floor: Annotated[Repeated, tyro.conf.arg(metavar="NAME=VALUE"), hint("none")] = ()
    """At least so much of an objective, e.g. --floor speed=2000; may be repeated."""
    ceiling: Annotated[Repeated, tyro.conf.arg(metavar="NAME=VALUE"), hint("none")] = ()
    """At most so much of an objective; may be repeated."""
    aspire: Annotated[Repeated, tyro.conf.arg(metavar="NAME=VALUE"), hint("none")] = ()
    """About so much of an objective: take what comes closest to all of these; may be repeated."""
    knee: Flag = False
    """Take the knee of the front, beyond which a little more of one objective costs most of the others."""
    most: Annotated[str | None, tyro.conf.arg(metavar="NAME"), hint("none")] = None
    """Take what has the most of this objective."""
    prefer: Annotated[Repeated, tyro.conf.arg(metavar="'A>B'"), hint("none")] = ()
    """An answer about two rows of the front: 'A>B', 'A<B' or, for no difference, 'A=B'; may be repeated."""
    row: Annotated[int | None, hint("what the wishes pick")] = None
    """Take this row of the front."""
    no_questions: Flag = False
    """Ask nothing, also in a terminal."""
    episodes: int = 100
    """Fresh episodes that show what the policy will do (0: none)."""
    threads: int = 0
    """Simulation threads (0: one per core)."""
    out: Annotated[Path | None, hint("nowhere")] = None
    """Write the policy here: NAME.safetensors, NAME.onnx, or a folder for numpy, as `ucb-moppo export` does."""
    json: Flag = False
    """Print the decision as JSON."""


@dataclass(frozen=True)
class Export:
    """Write one policy for other programs: as a file of ours, as ONNX, or as a folder with a few lines of numpy.

    The policy is the one that serves a preference best, conditioned on it. What is written holds normalisation,
    weight and action range: rows of observations go in, actions come out as the environment takes them.
    """

    run: tyro.conf.Positional[Path]
    """Directory of a run, or a policy that was saved as .safetensors."""
    weight: Annotated[tuple[float, ...], hint("none")] = ()
    """The preference, a number per objective."""
    policy: Annotated[int | None, hint("the best for the preference")] = None
    """This one of the run's policies, as `ucb-moppo show` counts them; alone, at its only weight on the front."""
    conditioning: Literal["preference", "evaluated"] = "preference"
    """Condition it on the preference, or on the evaluated weight that won, where its returns were measured."""
    format: Annotated[Format | None, open_choice(Format), hint("what --out ends in, or else safetensors")] = None
    """safetensors: for ucb_moppo.load; onnx: for ONNX runtimes; numpy: a folder that needs nothing of ours."""
    out: Annotated[Path | None, hint("policy.safetensors, policy.onnx or the folder policy")] = None
    """File or folder to write."""
    json: Flag = False
    """Print what was exported as JSON."""


@dataclass(frozen=True)
class Doctor:
    """Say what this installation has: versions, cores, rendering, browser, disk, compiled kernels.

    Nothing is changed or sent. Paste it into a bug report.
    """

    json: Flag = False
    """Print it as JSON."""


@dataclass(frozen=True)
class Completion:
    """Print what makes a shell complete commands, options and their values.

    For bash: ucb-moppo completion bash > ~/.local/share/bash-completion/completions/ucb-moppo; for zsh put `eval
    "$(ucb-moppo completion zsh)"` into ~/.zshrc, behind compinit.
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh"]]
    """The shell to complete in."""


@dataclass(frozen=True)
class Problems:
    """List the problems: objectives, sizes, horizon and reference point."""

    all: Flag = False
    """List every MO-Gymnasium id that can be trained too."""
    protocol: Annotated[str, tyro.conf.arg(metavar="{" + ",".join(PROTOCOLS) + "}")] = "gymnasium"
    """Which native problems: as Gymnasium, PGMORL or C-MORL set them up."""
    json: Flag = False
    """Print the list as JSON."""
