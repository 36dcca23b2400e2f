"""Published numbers as data, each with the protocol it was measured under: the paper's, and others of A and C.

HV and EU of the paper: mean and standard deviation over three seeds, from the full table of its supplement.
Numbers of different protocols never share a column, because they measure different things: 500 against 1,000
steps, other models, other scales of an objective.
"""

from __future__ import annotations

from typing import NamedTuple

PROTOCOLS = {
    "B": "Gymnasium's v4 models, 1,000 steps, undiscounted, reference point 0: the protocol of this library",
    "A": "PGMORL's models, 500 steps, undiscounted, reference point 0",
    "not stated": "run by the paper's authors with morl-baselines, rewards and episode length not stated; "
    "in Hopper-v3 the third objective is on another scale",
    "C": "MO-Gymnasium's rewards, 500 steps, returns discounted by 0.99, reference point -100, EU over weights in "
    "steps of 0.01 (two objectives) or 0.1 (three)",
}
METHOD_PROTOCOLS = {
    "UCB-MOPPO": "B",
    "Mean-MOPPO": "B",
    "Random-MOPPO": "B",
    "Fixed-MOPPO": "B",
    "PGMORL": "A",
    "PD-MORL": "A",
    "CAPQL": "not stated",
    "GPI-LS": "not stated",
}


class Published(NamedTuple):
    """What a publication prints for one method on one problem; None where it does not say."""

    method: str
    protocol: str
    hypervolume: float | None
    hypervolume_std: float | None
    expected_utility: float | None
    expected_utility_std: float | None
    policies: int | None = None
    """Policies kept after convergence."""
    source: str = "paper, 3 seeds"
    sparsity: float | None = None


# Per problem: (scale of HV, scale of EU), then per method of METHOD_PROTOCOLS HV ± and EU ± in those scales.
_TABLE: dict[str, tuple[tuple[float, float], list[tuple[float, float, float, float]]]] = {
    "Swimmer-v2": (
        (1e4, 1e2),
        [
            (5.60, 0.18, 2.18, 0.48),
            (4.72, 0.19, 2.16, 0.25),
            (4.56, 0.23, 2.08, 0.22),
            (4.45, 0.11, 2.11, 0.12),
            (1.67, 0.09, 1.23, 0.42),
            (1.77, 0.02, 1.24, 0.49),
            (2.40, 0.03, 1.79, 0.45),
            (4.75, 0.02, 2.14, 0.41),
        ],
    ),
    "HalfCheetah-v2": (
        (1e7, 1e3),
        [
            (1.78, 0.23, 3.88, 0.22),
            (1.60, 0.07, 3.58, 0.25),
            (1.21, 0.09, 3.55, 0.30),
            (1.12, 0.05, 3.44, 0.36),
            (0.58, 0.01, 2.30, 0.44),
            (0.62, 0.02, 2.42, 0.31),
            (2.20, 0.08, 4.47, 0.03),
            (2.16, 0.02, 4.30, 0.08),
        ],
    ),
    "Walker2d-v2": (
        (1e7, 1e3),
        [
            (1.40, 0.03, 3.54, 0.42),
            (1.29, 0.13, 3.42, 0.29),
            (1.15, 0.06, 3.34, 0.29),
            (1.13, 0.07, 3.30, 0.33),
            (0.44, 0.02, 1.98, 0.21),
            (0.56, 0.04, 2.24, 0.34),
            (0.18, 0.05, 1.50, 0.12),
            (1.22, 0.04, 3.40, 0.30),
        ],
    ),
    "Ant-v2": (
        (1e7, 1e3),
        [
            (1.07, 0.09, 2.96, 0.43),
            (0.92, 0.04, 2.61, 0.17),
            (0.65, 0.01, 2.35, 0.24),
            (0.60, 0.01, 2.21, 0.39),
            (0.61, 0.10, 2.28, 0.35),
            (0.66, 0.02, 2.41, 0.20),
            (0.45, 0.04, 2.03, 0.42),
            (0.81, 0.01, 2.84, 0.26),
        ],
    ),
    "Hopper-v2": (
        (1e7, 1e3),
        [
            (0.84, 0.05, 2.77, 0.28),
            (0.81, 0.04, 2.84, 0.30),
            (0.79, 0.01, 2.77, 0.18),
            (0.76, 0.02, 2.71, 0.26),
            (0.23, 0.02, 1.48, 0.47),
            (0.25, 0.02, 1.51, 0.18),
            (0.25, 0.07, 1.46, 0.11),
            (0.80, 0.02, 2.75, 0.07),
        ],
    ),
    "Hopper-v3": (
        (1e10, 1e3),
        [
            (3.62, 0.01, 3.20, 0.02),
            (2.83, 0.22, 3.19, 0.04),
            (2.90, 0.11, 3.28, 0.20),
            (2.64, 0.18, 2.90, 0.01),
            (0.63, 0.07, 1.70, 0.04),
            (0.11, 0.02, 1.74, 0.09),
            (0.31, 0.06, 1.52, 0.29),
            (0.65, 0.03, 2.14, 0.42),
        ],
    ),
}
_POLICIES = {
    "Swimmer-v2": {"PGMORL": 168, "CAPQL": 33, "GPI-LS": 41, "UCB-MOPPO": 30},
    "HalfCheetah-v2": {"PGMORL": 285, "CAPQL": 35, "GPI-LS": 83, "UCB-MOPPO": 30},
    "Walker2d-v2": {"PGMORL": 412, "CAPQL": 51, "GPI-LS": 52, "UCB-MOPPO": 30},
    "Ant-v2": {"PGMORL": 64, "CAPQL": 26, "GPI-LS": 27, "UCB-MOPPO": 30},
    "Hopper-v2": {"PGMORL": 206, "CAPQL": 30, "GPI-LS": 45, "UCB-MOPPO": 30},
    "Hopper-v3": {"PGMORL": 4023, "CAPQL": 82, "GPI-LS": 89, "UCB-MOPPO": 108},
}


_HYPER_MORL = "Hyper-MORL (IJCAI 2024), 9 seeds, 12M to 120M steps"
_COLA = "COLA (NeurIPS 2025), 5 seeds, 3M steps"
_BY_COLA = "run by COLA's authors, 3M steps"
# Class A in the literature. Per problem: scale of HV, then (method, source, HV, its ±, EU).
_CLASS_A: dict[str, tuple[float, list[tuple[str, str, float, float | None, float | None]]]] = {
    "Swimmer-v2": (1e4, [("Hyper-MORL", _HYPER_MORL, 2.88, 0.44, 163.0)]),
    "HalfCheetah-v2": (1e6, [("Hyper-MORL", _HYPER_MORL, 5.53, 0.10, 2289.0)]),
    "Walker2d-v2": (
        1e6,
        [
            ("Hyper-MORL", _HYPER_MORL, 5.37, 0.35, 2158.0),
            ("COLA", _COLA, 4.87, 0.05, None),
            ("PGMORL", _BY_COLA, 4.50, None, None),
            ("Q-Pensieve", _BY_COLA, 4.37, None, None),
            ("CAPQL", _BY_COLA, 3.35, None, None),
        ],
    ),
    "Ant-v2": (
        1e6,
        [
            ("Hyper-MORL", _HYPER_MORL, 7.49, 0.16, 2531.0),
            ("COLA", _COLA, 11.33, 2.76, None),
            ("PGMORL", _BY_COLA, 5.40, None, None),
            ("Q-Pensieve", _BY_COLA, 6.93, None, None),
            ("CAPQL", _BY_COLA, 7.07, None, None),
        ],
    ),
    "Hopper-v2": (
        1e7,
        [
            ("Hyper-MORL", _HYPER_MORL, 2.05, 0.06, 4370.0),
            ("COLA", _COLA, 2.11, 0.03, None),
            ("PGMORL", _BY_COLA, 1.90, None, None),
            ("Q-Pensieve", _BY_COLA, 2.06, None, None),
            ("CAPQL", _BY_COLA, 1.65, None, None),
        ],
    ),
    "Hopper-v3": (
        1e10,
        [
            ("Hyper-MORL", _HYPER_MORL, 3.58, 0.25, 3345.0),
            ("COLA", _COLA, 3.41, 0.04, None),
            ("PGMORL", _BY_COLA, 3.35, None, None),
            ("Q-Pensieve", _BY_COLA, 3.29, None, None),
            ("CAPQL", _BY_COLA, 1.92, None, None),
        ],
    ),
}


_CMORL = "C-MORL on v5, recomputed from logs of 5 runs, 12M (two objectives) or 16M steps"
_CMORL_PAGE = "printed for C-MORL on v5 by D3PO's author"
_D3PO = "D3PO (its page), 5 runs, single episodes"
_BESIDE = "as printed beside C-MORL and D3PO"
ClassC = tuple[str, str, float | None, float | None, float | None, float | None, float | None]
# Class C. Per problem: scale of HV, then (method, source, HV, its ±, EU, its ±, sparsity).
_CLASS_C: dict[str, tuple[float, list[ClassC]]] = {
    "mo-hopper-2obj-v5": (
        1e5,
        [
            ("C-MORL", _CMORL, 1.365, 0.033, 252.9, 2.8, 50.0),
            ("D3PO", _D3PO, 1.30, 0.03, 247.0, 1.0, 26.0),
            ("PG-MORL", _BESIDE, 1.20, None, None, None, None),
        ],
    ),
    "mo-ant-2obj-v5": (
        1e5,
        [
            ("C-MORL", _CMORL, 1.319, 0.167, 251.0, 26.0, 625.0),
            ("D3PO", _D3PO, 1.91, 0.18, 314.0, 21.0, 660.0),
            ("PG-MORL", _BESIDE, 0.35, None, None, None, None),
            ("GPI-LS", _BESIDE, None, None, 428.0, None, None),
        ],
    ),
    "mo-humanoid-v5": (
        1e5,
        [
            ("C-MORL", f"{_CMORL}, 1,000 steps an episode", 3.101, 0.068, 453.0, 5.0, 3371.0),
            ("C-MORL", _CMORL_PAGE, 3.43, None, 478.0, None, None),
            ("D3PO", _D3PO, 3.76, 0.11, 511.0, 9.0, 30.0),
            ("PG-MORL", _BESIDE, 2.62, None, None, None, None),
        ],
    ),
    "mo-hopper-v5": (
        1e7,
        [
            ("C-MORL", _CMORL, 2.194, 0.033, 182.0, 1.3, 54.0),
            ("D3PO", _D3PO, 2.12, 0.16, 174.0, None, 4.0),
            ("PG-MORL", _BESIDE, 1.59, None, None, None, None),
        ],
    ),
    "mo-ant-v5": (
        1e7,
        [
            ("C-MORL", _CMORL, 2.607, 0.261, 207.0, 15.0, 30.0),
            ("D3PO", _D3PO, 2.68, 0.21, 199.0, 8.0, 4.0),
            ("PG-MORL", _BESIDE, 0.94, None, None, None, None),
            ("GPI-LS", _BESIDE, None, None, 241.0, None, None),
        ],
    ),
}


def published_class_c(problem: str) -> list[Published]:
    """What others printed under C-MORL's protocol for one of its five problems."""
    scale, rows = _CLASS_C.get(problem, (1.0, []))
    return [
        Published(method, "C", times(hv, scale), times(std, scale), eu, eu_std, source=source, sparsity=sparsity)
        for method, source, hv, std, eu, eu_std, sparsity in rows
    ]


def times(value: float | None, scale: float) -> float | None:
    """A printed number in units of one, if there is one."""
    return None if value is None else value * scale


def published_class_a(problem: str) -> list[Published]:
    """What others published under PGMORL's protocol for one of the six problems."""
    scale, rows = _CLASS_A.get(problem.removeprefix("ucb_moppo/"), (1.0, []))
    return [
        Published(method, "A", hv * scale, times(std, scale), eu, None, source=source)
        for method, source, hv, std, eu in rows
    ]


def published(problem: str) -> list[Published]:
    """The paper's numbers for one of its six problems; none for any other."""
    name = problem.removeprefix("ucb_moppo/")
    if name not in _TABLE:
        return []
    (hv, eu), rows = _TABLE[name]
    return [
        Published(method, protocol, a * hv, b * hv, c * eu, d * eu, _POLICIES[name].get(method))
        for (method, protocol), (a, b, c, d) in zip(METHOD_PROTOCOLS.items(), rows, strict=True)
    ]
