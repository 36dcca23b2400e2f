"""The outer loop: shards of policies, rollouts, evaluation, and the trainer that goes from stage to stage.

May import the root, `objectives`, `policy`, `algos`, `search` and `envs`; where shards run is `runtime`'s matter.
"""
