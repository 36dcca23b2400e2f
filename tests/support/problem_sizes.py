"""The six problems of the paper as specified: observations, actions, objectives."""

PROBLEM_SIZES = {
    "Swimmer-v2": (8, 2, 2),
    "HalfCheetah-v2": (17, 6, 2),
    "Walker2d-v2": (17, 6, 2),
    "Ant-v2": (27, 8, 2),
    "Hopper-v2": (11, 3, 2),
    "Hopper-v3": (11, 3, 3),
}
