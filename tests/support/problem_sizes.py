"""The native problems as specified: observations, actions, objectives."""

PROBLEM_SIZES = {
    "Swimmer-v2": (8, 2, 2),
    "HalfCheetah-v2": (17, 6, 2),
    "Walker2d-v2": (17, 6, 2),
    "Ant-v2": (27, 8, 2),
    "Hopper-v2": (11, 3, 2),
    "Hopper-v3": (11, 3, 3),
}
"""The six of the paper."""

MO_PROBLEM_SIZES = {
    "mo-hopper-v5": (11, 3, 3),
    "mo-hopper-2obj-v5": (11, 3, 2),
    "mo-walker2d-v5": (17, 6, 2),
    "mo-halfcheetah-v5": (17, 6, 2),
    "mo-swimmer-v5": (8, 2, 2),
    "mo-ant-v5": (105, 8, 3),
    "mo-ant-2obj-v5": (105, 8, 2),
    "mo-humanoid-v5": (348, 17, 2),
    "mo-reacher-v5": (6, 9, 4),
}
"""MO-Gymnasium's."""
