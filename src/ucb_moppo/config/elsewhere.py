"""What other libraries call our settings: who knows Stable-Baselines3, CleanRL or morl-baselines is told ours."""

from __future__ import annotations

from collections.abc import Collection

from ucb_moppo.errors import nearest_names

ELSEWHERE = {
    name: ours
    for ours, names in {
        "active": ("n_envs", "num_envs", "n_environments"),
        "cells": ("net_arch", "hidden_size", "hidden_sizes"),
        "clip": ("clip_range", "clip_coef", "clip_eps"),
        "entropy_coefficient": ("ent_coef", "entropy_coef", "entropy_coeff"),
        "epochs": ("n_epochs", "num_epochs", "update_epochs"),
        "evaluation_discount": ("eval_gamma", "eval_discount"),
        "gamma": ("discount", "discount_factor"),
        "horizon": ("max_episode_steps", "time_limit"),
        "learning_rate": ("lr", "step_size"),
        "minibatch": ("batch_size", "minibatch_size", "mini_batch_size"),
        "normalise_observations": ("norm_obs", "normalize_observations", "normalize_obs"),
        "out": ("save_dir", "log_dir", "logdir", "output_dir"),
        "policies": ("pop_size", "num_policies", "n_policies", "population_size"),
        "reference_point": ("ref_point", "hv_ref_point"),
        "rollout": ("n_steps", "num_steps", "steps_per_iteration"),
        "steps": ("total_timesteps", "timesteps", "num_timesteps", "num_env_steps", "total_steps"),
        "tensorboard": ("tensorboard_log", "tb_log"),
        "value_coefficient": ("vf_coef", "value_coef", "vf_coeff"),
        "wandb": ("track", "use_wandb"),
    }.items()
    for name in names
}
"""Their names, with ours."""


def name_of(other: str, known: Collection[str]) -> str | None:
    """What a setting of another library is called here, if it is one that is ``known``."""
    ours = ELSEWHERE.get(other)
    return ours if ours in known else None


def suggest(name: str, known: Collection[str]) -> str:
    """A sentence with what an unknown setting is called here, or with the names closest to it."""
    ours = name_of(name, known)
    return f"here it is {ours}" if ours else nearest_names(name, known)
