"""The plot a reader can turn: a front of three objectives, as plotly draws it. Plotly is an optional install."""

from __future__ import annotations

import importlib.util
from typing import Any

from ucb_moppo.report.runs import RunData
from ucb_moppo.report.style import weight_colours

# From where all objectives are large, so that the front faces the reader; a little down, where its labels are.
CAMERA = {"eye": {"x": 1.45, "y": 1.45, "z": 0.95}, "center": {"x": 0.0, "y": 0.0, "z": -0.16}}
MISSING = "Plotly is not installed, so there is no rotatable plot here: pip install 'ucb-moppo[report]' adds it."


def is_available() -> bool:
    return importlib.util.find_spec("plotly") is not None


def plotly_script() -> str:
    """Plotly's whole library as text, so that the page works without a network."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def rotatable_html(run: RunData) -> str:
    """The front of three objectives as an HTML element; it needs ``plotly_script`` on the same page."""
    figure = rotatable_figure(run)
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False}))


def rotatable_figure(run: RunData) -> Any:
    import plotly.graph_objects as go

    front, weights = run.front, run.evaluated.weights[run.on_front]
    colours = [f"rgb({r},{g},{b})" for r, g, b in (255 * weight_colours(weights)).round().astype(int)]
    texts = [
        f"policy {k}<br>weight {', '.join(f'{x:.2f}' for x in w)}"
        for k, w in zip(run.evaluated.policy[run.on_front], weights, strict=True)
    ]
    values = "<br>".join(f"{o}: %{{{a}:,.1f}}" for o, a in zip(run.objectives, "xyz", strict=True))
    marks = go.Scatter3d(
        **dict(zip("xyz", front.T, strict=True)),
        mode="markers",
        marker={"size": 4, "color": colours},
        text=texts,
        hovertemplate=f"%{{text}}<br>{values}<extra></extra>",
    )
    scene: dict[str, Any] = {
        f"{a}axis": {"title": {"text": o}, "nticks": 6} for o, a in zip(run.objectives, "xyz", strict=True)
    }
    scene |= {"aspectmode": "cube", "camera": CAMERA}
    figure = go.Figure(marks)
    figure.update_layout(scene=scene, height=560, margin={"l": 0, "r": 0, "t": 0, "b": 0}, uirevision=1)
    return figure
