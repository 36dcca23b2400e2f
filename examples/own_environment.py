"""Train on an environment of your own and use the policies.

    python examples/own_environment.py

A boat crosses a river of width 1 in which the current is fastest in the middle. It steers by a heading in
[-1, 1] and has two objectives: to cross quickly, and not to be carried downstream.
"""

from __future__ import annotations

import gymnasium
import numpy as np

import ucb_moppo


class RiverCrossing(gymnasium.Env):
    """Shows (distance from the near bank, drift). Action: heading from straight across (−1) to upstream (1)."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    reward_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    objectives = ("speed", "staying put")  # what tables, pictures and options call them

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = np.array([0.0, self.np_random.uniform(-0.1, 0.1)])
        return self.position.astype(np.float32), {}

    def step(self, action):
        angle = (np.clip(action[0], -1, 1) + 1) * np.pi / 4
        current = 0.08 * 4 * self.position[0] * (1 - self.position[0])
        drift = current - 0.1 * np.sin(angle)
        self.position = self.position + np.array([0.1 * np.cos(angle), drift])
        across = bool(self.position[0] >= 1)
        reward = np.array([-0.1 if not across else 1.0, -abs(drift)])
        return self.position.astype(np.float32), reward, across, False, {}


if "RiverCrossing-v0" not in gymnasium.registry:  # as a program, this file is later imported by its name too
    gymnasium.register("RiverCrossing-v0", RiverCrossing, max_episode_steps=100)

if __name__ == "__main__":
    run = ucb_moppo.train(
        "own_environment:RiverCrossing-v0", steps=200_000, policies=4, horizon=100, reference_point=(-10, -10)
    )
    front = run.front()
    for weight, returns in zip(front.weights, front.returns, strict=True):
        reached = (f"{name} {value:.2f}" for name, value in zip(RiverCrossing.objectives, returns, strict=True))
        print(f"weight {weight.round(2)}: {', '.join(reached)}")
    policy = run.policy([0.5, 0.5])
    print("in the middle of the river it steers", policy([0.5, 0.0]))
