"""What a policy of a run will do: fresh episodes of its problem."""

from __future__ import annotations

from functools import partial

from ucb_moppo.decide.forecast import Episodes
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.fresh import run_fresh_episodes
from ucb_moppo.store.run import Run
from ucb_moppo.training.reevaluate import load_config

NUM_EPISODES = 100


def run_policy(run: Run, row: int, num_episodes: int = NUM_EPISODES, threads: int = 0) -> Episodes:
    """Episodes of the policy of one row of ``run.evaluated()``, conditioned on that row's weight."""
    config = load_config(run)
    make = partial(environments_of(config), num_threads=threads)
    return run_fresh_episodes(
        run.evaluated_policy(row), make, num_episodes, config.evaluation_discount, config.sampled
    )
