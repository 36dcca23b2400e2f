"""Seeds of many episodes at a time are those of each."""

from __future__ import annotations

import numpy as np
import pytest

from ucb_moppo.seeding import TRAINING, EpisodeSeeds, episode_seed, hash_words


@pytest.mark.parametrize("num_words", [1, 3, 4, 5, 9])
def test_hashing_words_is_numpys(num_words: int) -> None:
    words = np.random.default_rng(num_words).integers(0, 2**32, (num_words, 50), dtype=np.uint32)
    words[:, 0], words[:, 1] = 0, 2**32 - 1
    expected = [np.random.SeedSequence(column.tolist()).generate_state(1)[0] for column in words.T]
    np.testing.assert_array_equal(hash_words(list(words)), expected)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_episodes_have_their_seeds_in_any_order(seed: int) -> None:
    seeds = EpisodeSeeds(seed, (3, 11), num_envs=4)
    for environment, episode in ((0, 0), (7, 31), (5, 32), (2, 1000), (0, 1), (6, 70_000)):
        k, n = divmod(environment, 4)
        assert seeds.of(environment, episode) == episode_seed(seed, TRAINING, (3, 11)[k], n, episode)
