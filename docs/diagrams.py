"""Draw the diagrams of the documents: every one is a list of boxes, lines and words, written as SVG.

python docs/diagrams.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent / "images"
PROJECT = IMAGES.parents[1] / "pyproject.toml"
INK, PALE, LINE = "#1f2933", "#5f6b7a", "#94a3b8"
BLUE, GREEN, AMBER, ROSE, GREY = "#dbeafe", "#dcfce7", "#fef3c7", "#ffe4e6", "#f1f5f9"
SHADES = ("#1d4ed8", "#0f766e", "#b45309", "#be123c")
"""One per sub-space."""
COLOURS = {
    **dict.fromkeys(("training", "peers", "runtime"), BLUE),
    **dict.fromkeys(("engine", "config"), GREEN),
    **dict.fromkeys(("search", "algos", "envs", "store"), AMBER),
    **dict.fromkeys(("policy", "objectives"), ROSE),
}
"""Of a room where it is not grey."""


class Drawing:
    """Shapes on a white sheet, in the order in which they were drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size, self.title, self.shapes = (width, height), title, list[str]()

    def box(self, x: float, y: float, width: float, height: float, *lines: str, fill: str = GREY) -> None:
        """A rounded box with lines of words in its middle; the first of several stands out."""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" '
            f'stroke="{LINE}"/>'
        )
        top = y + height / 2 - 9 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            first = number == 0 and len(lines) > 1
            self.words(x + width / 2, top + 18 * number, line, bold=first, pale=number > 0)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 14,
        anchor: str = "middle",
        bold: bool = False,
        pale: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size if not pale else size - 1}" text-anchor="{anchor}" '
            f'fill="{PALE if pale else INK}"{weight}>{escape(text)}</text>'
        )

    def arrow(self, *points: tuple[float, float], label: str = "", at: tuple[float, float] | None = None) -> None:
        """A line through points with a head at its end; its label stands ``at`` a place, or above its middle."""
        path = " ".join(f"{'M' if i == 0 else 'L'}{x:g},{y:g}" for i, (x, y) in enumerate(points))
        self.shapes.append(
            f'<path d="{path}" fill="none" stroke="{PALE}" stroke-width="1.6" marker-end="url(#head)"/>'
        )
        if label:
            (x0, y0), (x1, y1) = points[0], points[-1]
            x, y = at or ((x0 + x1) / 2, (y0 + y1) / 2 - 7)
            self.words(x, y, label, size=13, pale=True)

    def line(self, x0: float, y0: float, x1: float, y1: float, colour: str = LINE, width: float = 1.2) -> None:
        self.shapes.append(
            f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def dot(self, x: float, y: float, radius: float, colour: str, hollow: bool = False) -> None:
        fill = "white" if hollow else colour
        self.shapes.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>'
        )

    def to_svg(self) -> str:
        width, height = self.size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="system-ui, Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="{PALE}"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" rx="10" fill="white"/>\n'
        )
        return head + "\n".join(self.shapes) + "\n</svg>\n"


def draw_decomposition() -> Drawing:
    """Two layers: K pivots split the simplex; each sub-space has M candidates, of which N are trained on."""
    sheet = Drawing(860, 430, "Two-layer decomposition of the weights of two objectives")
    left, right, layers = 90, 790, (110, 215)
    width = (right - left) / 4
    sheet.words(
        left, 40, "Layer 1: K pivots split the simplex of weights into K sub-spaces", anchor="start", bold=True
    )
    sheet.line(left, layers[0], right, layers[0], INK, 2)
    for k, shade in enumerate(SHADES):
        middle = left + (k + 0.5) * width
        sheet.dot(middle, layers[0], 8, shade)
        sheet.words(middle, layers[0] - 20, f"pivot {k + 1}", pale=True)
        sheet.line(left + k * width, layers[0] - 12, left + k * width, layers[0] + 12, INK, 2)
        sheet.words(middle, layers[0] + 30, f"W{'₁₂₃₄'[k]}", bold=True)
    sheet.line(right, layers[0] - 12, right, layers[0] + 12, INK, 2)
    sheet.words(left - 8, layers[0] + 5, "w₁ = 0", anchor="end", pale=True)
    sheet.words(right + 8, layers[0] + 5, "1", anchor="start", pale=True)
    sheet.words(
        left,
        layers[1] - 38,
        "Layer 2: M candidates in each, of which N are trained on in a stage",
        anchor="start",
        bold=True,
    )
    sheet.line(left, layers[1], right, layers[1], INK, 2)
    chosen = {0: (1, 2, 5), 1: (3, 4, 8), 2: (0, 6, 7), 3: (2, 7, 8)}
    for k, shade in enumerate(SHADES):
        for i in range(9):
            place = left + (k + (i + 0.5) / 9) * width
            sheet.dot(place, layers[1], 6, shade, hollow=i not in chosen[k])
    legend = layers[1] + 34
    for x, hollow, text in ((left, True, "candidate"), (left + 110, False, "selected for the next stage")):
        sheet.dot(x + 6, legend - 5, 6, INK, hollow)
        sheet.words(x + 20, legend, text, anchor="start", pale=True)
    for k in range(4):
        x = left + (k + 0.5) * width
        sheet.arrow((x, legend + 16), (x, 306))
        sheet.box(x - 72, 306, 144, 56, f"policy {k + 1}", "best for this part", fill="white")
    sheet.words(
        (left + right) / 2,
        400,
        "One policy may learn for all sub-spaces; the best so far is kept for each of them.",
        pale=True,
    )
    return sheet


def draw_network() -> Drawing:
    """Actor and critic: the weight joins the observation at the input, and the hidden layer before the head."""
    sheet = Drawing(900, 372, "Actor and critic, conditioned on the weight")
    sheet.box(24, 52, 130, 56, "observation s", "normalised", fill=BLUE)
    sheet.box(24, 226, 130, 56, "weight w", "on the simplex", fill=AMBER)
    for y, name, head, out in (
        (36, "actor", ("mean and log-std,", "or logits"), ("action",)),
        (210, "critic", ("a value for", "each objective"), ("V(s, w)", "utility w·V")),
    ):
        middle = y + 45
        sheet.box(250, y, 124, 90, f"{name}: layer 1", "128 cells, tanh", fill=GREEN)
        sheet.box(412, y, 124, 90, "layer 2", "128 cells, tanh", fill=GREEN)
        sheet.box(596, y, 138, 90, "linear head", *head, fill=GREEN)
        sheet.box(776, middle - 28, 100, 56, *out, fill=ROSE)
        sheet.arrow((374, middle), (412, middle))
        sheet.arrow((536, middle - 14), (596, middle - 14))
        sheet.arrow((734, middle), (776, middle))
        sheet.arrow((154, 66), (212, 66), (212, middle - 15), (250, middle - 15))
        sheet.arrow((154, 268), (184, 268), (184, middle + 19), (250, middle + 19))
        sheet.arrow((89, 282), (89, 336), (566, 336), (566, middle + 22), (596, middle + 22))
    sheet.words(
        330, 356, "w joins again before the last layer: the output stays sensitive to it", size=13, pale=True
    )
    return sheet


def draw_stages() -> Drawing:
    """The loop: train a stage, evaluate, keep what is better, fit, score, select."""
    sheet = Drawing(860, 470, "The loop over stages")
    boxes = {
        "train": (40, 60, BLUE, "Train a stage", "C iterations of rollout", "and PPO on N weights each"),
        "evaluate": (320, 60, BLUE, "Evaluate", "every policy at P probes,", "same initial states for all"),
        "keep": (600, 60, GREEN, "Keep the best", "of each sub-space so far", "by the whole front"),
        "fit": (600, 270, AMBER, "Fit the surrogate", "what did training near w", "change? B members"),
        "score": (320, 270, AMBER, "Score candidates", "HV of front ∪ {V + Δ}:", "mean + β · std over members"),
        "select": (40, 270, AMBER, "Select N weights", "one at a time, each", "joining the front"),
    }
    for x, y, fill, *lines in boxes.values():
        sheet.box(x, y, 220, 96, *lines, fill=fill)
    sheet.arrow((260, 108), (320, 108))
    sheet.arrow((540, 108), (600, 108))
    sheet.arrow((710, 156), (710, 270))
    sheet.arrow((600, 318), (540, 318))
    sheet.arrow((320, 318), (260, 318))
    sheet.arrow((150, 270), (150, 156))
    sheet.words(162, 216, "next stage", anchor="start", size=13, pale=True)
    sheet.words(722, 216, "returns of all stages", anchor="start", size=13, pale=True)
    sheet.words(150, 40, "Warm-up: weights drawn at random", size=13, pale=True)
    sheet.arrow(
        (430, 156), (430, 196), (430, 214), label="after the last: ten held-out episodes a point", at=(430, 236)
    )
    sheet.words(
        430,
        420,
        "ucb: β = √(log 2t / t) · mean: β = 0 · random: weights drawn · fixed: the pivots",
        size=14,
        pale=True,
    )
    sheet.words(
        430, 444, "The four methods differ in how weights are selected, and in nothing else.", size=13, pale=True
    )
    return sheet


def draw_training() -> Drawing:
    """The way of the data through one ``train``."""
    sheet = Drawing(900, 640, "The way of the data through one train")
    boxes: dict[str, tuple[float, float, float, str, tuple[str, ...]]] = {
        "cli": (30, 30, 240, GREY, ("cli", "options → settings")),
        "config": (330, 30, 240, GREY, ("config", "settings → config, nothing open")),
        "train": (630, 30, 240, BLUE, ("training/train", "lock, learner, recorder")),
        "record": (630, 150, 240, BLUE, ("training/record", "one loop over events")),
        "trainer": (330, 150, 240, GREEN, ("engine/trainer", "stage by stage")),
        "search": (30, 150, 240, AMBER, ("search", "predicts, scores, picks")),
        "executor": (330, 280, 240, GREEN, ("runtime/executor", "shards, wherever they are")),
        "shard": (330, 400, 240, GREEN, ("engine/shard", "some of the sub-spaces")),
        "evaluation": (30, 400, 240, GREEN, ("engine/evaluation", "returns [K, P, m]")),
        "rollout": (330, 530, 240, GREEN, ("engine/rollout", "policies act")),
        "envs": (30, 530, 240, ROSE, ("envs", "a batch of environments")),
        "algos": (630, 530, 240, AMBER, ("algos", "one update, vmapped over K")),
        "store": (630, 280, 240, ROSE, ("store", "the run directory")),
        "run": (630, 400, 240, GREY, ("Run", "front, policy(preference)")),
    }
    for x, y, width, fill, lines in boxes.values():
        sheet.box(x, y, width, 64, *lines, fill=fill)
    sheet.arrow((270, 62), (330, 62))
    sheet.arrow((570, 62), (630, 62))
    sheet.arrow((750, 94), (750, 150))
    sheet.arrow((570, 182), (630, 182), label="events")
    sheet.arrow((330, 170), (270, 170))
    sheet.words(300, 162, "values", size=12, pale=True)
    sheet.arrow((270, 196), (330, 196))
    sheet.words(300, 212, "weights", size=12, pale=True)
    sheet.arrow((450, 214), (450, 280), label="train, evaluate on weights", at=(545, 252))
    sheet.arrow((450, 344), (450, 400))
    sheet.arrow((450, 464), (450, 530))
    sheet.arrow((330, 432), (270, 432))
    sheet.arrow((150, 400), (150, 312), (330, 312), label="returns", at=(200, 304))
    sheet.arrow((330, 562), (270, 562))
    sheet.arrow((570, 550), (630, 550))
    sheet.words(600, 542, "[T, K, N]", size=12, pale=True)
    sheet.arrow((630, 576), (570, 576))
    sheet.words(600, 592, "params", size=12, pale=True)
    sheet.arrow((750, 214), (750, 280), label="stages, checkpoints", at=(822, 252))
    sheet.arrow((750, 344), (750, 400))
    return sheet


def draw_rooms() -> Drawing:
    """Who may import whom, out of the contract that `make lint` enforces: a room imports only rooms below it."""
    contracts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    rows = [layer.split(" | ") for layer in contracts[0]["layers"]]
    height, gap = 44, 12
    sheet = Drawing(860, 30 + height * len(rows), "Who may import whom")
    for number, row in enumerate(rows):
        width = (620 - gap * (len(row) - 1)) / len(row)
        for place, room in enumerate(row):
            left, top = 40 + place * (width + gap), 20 + height * number
            sheet.box(left, top, width, 34, room, fill=COLOURS.get(room, GREY))
    sheet.arrow((720, 30), (720, height * len(rows)))
    sheet.words(734, 260, "may import", anchor="start", size=13, pale=True)
    sheet.words(734, 280, "what is below", anchor="start", size=13, pale=True)
    return sheet


DIAGRAMS: Mapping[str, Drawing] = {
    "decomposition.svg": draw_decomposition(),
    "network.svg": draw_network(),
    "stages.svg": draw_stages(),
    "training.svg": draw_training(),
    "rooms.svg": draw_rooms(),
}


def outdated() -> list[str]:
    """Diagrams whose file is not what is drawn here."""
    files = {name: IMAGES / name for name in DIAGRAMS}
    return [
        name
        for name, path in files.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != DIAGRAMS[name].to_svg()
    ]


if __name__ == "__main__":
    for name, drawing in DIAGRAMS.items():
        (IMAGES / name).write_text(drawing.to_svg(), encoding="utf-8")
        print(IMAGES / name)
