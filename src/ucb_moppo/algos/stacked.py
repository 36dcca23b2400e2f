"""States of K policies side by side: pytrees whose every array has a leading axis K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

Tree = TypeVar("Tree")


def stack_states(states: Sequence[Tree]) -> Tree:
    """K states side by side: every leaf gets a leading axis K."""
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *states)


def copy_state(state: Tree) -> Tree:
    """The same numbers in memory of their own."""
    return jax.tree.map(jnp.copy, state)


def repeat_policies(state: Tree, times: int) -> Tree:
    """Every policy ``times`` in a row."""
    return jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), times, axis=0), state)


@jax.jit
def finite_policies(tree: Any) -> Array:
    """Which of K policies [K] have only finite numbers in a tree of arrays [K, …]."""
    return jnp.stack([jnp.isfinite(leaf.reshape(len(leaf), -1)).all(1) for leaf in jax.tree.leaves(tree)]).all(0)


@jax.jit
def select_policies(mask: Array, chosen: Tree, otherwise: Tree) -> Tree:
    """Policies of ``chosen`` where ``mask`` [K] says so, else of ``otherwise``."""

    def select(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(select, chosen, otherwise)


def arrays_under(prefix: str, named: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The arrays whose names begin with ``prefix``, named without it."""
    return {name.removeprefix(prefix): array for name, array in named.items() if name.startswith(prefix)}


def name_leaves(prefix: str, state: Any) -> dict[str, NDArray]:
    """The leaves of a state by name, on the host."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {f"{prefix}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def fill_leaves(prefix: str, like: Tree, named: Mapping[str, NDArray]) -> Tree:
    """A state built ``like`` another, of the leaves that ``name_leaves`` has named."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    values = [jnp.asarray(named[f"{prefix}{jax.tree_util.keystr(path)}"]) for path, _ in leaves]
    return jax.tree_util.tree_unflatten(tree, values)
