"""The networks: against loops written out, and what their initialisation promises."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ucb_moppo.policy.networks import (
    ACTIVATIONS,
    Activation,
    Network,
    add_noise,
    apply_mlp,
    greedy_action,
    init_mlp,
    init_params,
    orthogonal,
)

D, M, OUT, CELLS = 3, 2, 4, 5


def random_mlp(seed: int = 0) -> dict[str, np.ndarray]:
    """Dense random parameters, biases included, so that no term can be forgotten unseen."""
    rng = np.random.default_rng(seed)
    shapes = init_mlp(rng, D, M, OUT, CELLS, 1.0)
    return {name: rng.normal(size=array.shape).astype(np.float32) for name, array in shapes.items()}


def batch(num: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num, D)).astype(np.float32), rng.dirichlet(np.ones(M), num).astype(np.float32)


def slow_forward(params: dict[str, np.ndarray], x: np.ndarray, w: np.ndarray) -> list[float]:
    """One input at a time, one unit at a time, in double precision: hidden = tanh(Σ_i in_i·W_ij + b_j)."""

    def layer(name: str, inputs: list[float]) -> list[float]:
        kernel, bias = params[f"{name}.kernel"], params[f"{name}.bias"]
        assert len(inputs) == kernel.shape[0]
        return [
            sum(float(inputs[i]) * float(kernel[i, j]) for i in range(len(inputs))) + float(bias[j])
            for j in range(kernel.shape[1])
        ]

    first = [np.tanh(value) for value in layer("hidden1", [*x, *w])]
    second = [np.tanh(value) for value in layer("hidden2", first)]
    return layer("head", [*second, *w])


def test_forward_pass_equals_the_loop() -> None:
    params, (x, w) = random_mlp(), batch(6)
    expected = [slow_forward(params, x[b], w[b]) for b in range(6)]
    np.testing.assert_allclose(apply_mlp(params, x, w), expected, rtol=1e-5, atol=1e-5)


def test_other_networks_equal_the_loop() -> None:
    """Three relu layers of their own widths, without w anywhere, squashed: tanh(relu(relu(relu(x)))) by hand."""
    rng, widths = np.random.default_rng(3), (D, 4, 6, 2, OUT)
    network = Network("relu", 3, conditioned=False, residual=False, squash=True)
    params = {}
    for name, fan_in, fan_out in zip([*network.layers, "head"], widths, widths[1:], strict=False):
        params[f"{name}.kernel"] = rng.normal(size=(fan_in, fan_out)).astype(np.float32)
        params[f"{name}.bias"] = rng.normal(size=fan_out).astype(np.float32)
    x, w = batch(6)
    hidden = x.astype(float)
    for layer in network.layers:
        hidden = np.maximum(hidden @ params[f"{layer}.kernel"] + params[f"{layer}.bias"], 0.0)
    expected = np.tanh(hidden @ params["head.kernel"] + params["head.bias"])
    np.testing.assert_allclose(apply_mlp(params, x, w, network), expected, rtol=1e-4, atol=1e-5)
    on_jax = apply_mlp(jax.tree.map(jnp.asarray, params), jnp.asarray(x), jnp.asarray(w), network)
    np.testing.assert_allclose(on_jax, expected, rtol=1e-4, atol=1e-5)
    assert Network(**network.to_json()) == network


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"activation": "sigmoid"}, "activation is 'sigmoid'"),
        ({"hidden_layers": 0}, "hidden_layers is 0"),
        ({"hidden_layers": 10**9}, "must be 1 to 16"),
        ({"squash": 1}, "squash is 1"),
    ],
)
def test_a_network_that_cannot_be_is_refused(setting: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network(**setting)


def test_numpy_and_jax_agree() -> None:
    params, (x, w) = random_mlp(), batch(6)
    on_jax = jax.jit(apply_mlp)(jax.tree.map(jnp.asarray, params), jnp.asarray(x), jnp.asarray(w))
    on_numpy = apply_mlp(params, x, w)
    assert isinstance(on_numpy, np.ndarray)
    assert on_numpy.dtype == np.float32
    np.testing.assert_allclose(on_numpy, np.asarray(on_jax), rtol=1e-6, atol=1e-6)


# Derived by hand: e⁻² − 1 = −0.864665, ln 3 / (1 + 1/3) = 0.823959, −2 / (1 + e²) = −0.238406, tanh(ln 3) = 8/10.
BY_HAND = {
    "tanh": ([np.log(3.0), 0.0], [0.8, 0.0]),
    "relu": ([-2.0, 0.0, 1.5], [0.0, 0.0, 1.5]),
    "elu": ([-2.0, 0.0, 1.5], [-0.8646647, 0.0, 1.5]),
    "silu": ([np.log(3.0), 0.0, -2.0], [0.8239592, 0.0, -0.2384058]),
}


def test_activations_have_the_values_derived_by_hand_in_numpy_and_in_jax() -> None:
    assert set(BY_HAND) == set(ACTIVATIONS) == set(get_args(Activation))
    for name, (given, expected) in BY_HAND.items():
        for xp in (np, jnp):
            found = ACTIVATIONS[name](xp, xp.asarray(given, dtype=np.float32))  # type: ignore[index]
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_activations_and_their_slopes_stay_finite_however_large_what_goes_in(activation: Activation) -> None:
    """Far out all of them are flat or the identity; numpy warns of any overflow on the way, which fails here."""
    large = np.float32([-1e30, -1e4, -90.0, 90.0, 1e4, 1e30])
    with np.errstate(all="raise", under="ignore"):
        found = ACTIVATIONS[activation](np, large)
    flat, below = activation == "tanh", -1.0 if activation in ("tanh", "elu") else 0.0
    np.testing.assert_allclose(found, [*[below] * 3, *([1.0] * 3 if flat else large[3:])], rtol=1e-6)
    slope = jax.vmap(jax.grad(lambda x: ACTIVATIONS[activation](jnp, x)))(jnp.asarray(large))
    np.testing.assert_allclose(slope, [*[0.0] * 3, *[0.0 if flat else 1.0] * 3], atol=1e-6)


@pytest.mark.parametrize("activation", get_args(Activation))
@pytest.mark.parametrize("layers", [1, 3])
def test_networks_of_other_depth_and_activation_are_the_same_in_numpy_and_jax(
    activation: Activation, layers: int
) -> None:
    network, rng = Network(activation, layers), np.random.default_rng(7)
    made = init_mlp(rng, D, M, OUT, CELLS, 1.0, layers=network.layers)
    assert [name for name in made if name.endswith("kernel")] == [f"{n}.kernel" for n in (*network.layers, "head")]
    params = {name: rng.normal(size=array.shape).astype(np.float32) for name, array in made.items()}
    x, w = batch(6)
    hidden = np.concatenate([x, w], axis=1)
    for layer in network.layers:
        hidden = ACTIVATIONS[activation](np, hidden @ params[f"{layer}.kernel"] + params[f"{layer}.bias"])
    expected = np.concatenate([hidden, w], axis=1) @ params["head.kernel"] + params["head.bias"]
    on_numpy = apply_mlp(params, x, w, network)
    on_jax = jax.jit(lambda *arrays: apply_mlp(*arrays, network))(jax.tree.map(jnp.asarray, params), x, w)
    np.testing.assert_allclose(on_numpy, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(on_numpy, on_jax, rtol=1e-4, atol=1e-5)


def test_two_layers_begin_as_they_always_have() -> None:
    """Naming the layers changes no draw: every array is the one that the same seed gives without."""
    named = init_mlp(np.random.default_rng(2), D, M, OUT, CELLS, 1.0, layers=["hidden1", "hidden2"])
    for name, array in init_mlp(np.random.default_rng(2), D, M, OUT, CELLS, 1.0).items():
        np.testing.assert_array_equal(named[name], array)


def test_weight_enters_the_last_layer() -> None:
    """With its rows of the first layer zeroed, w reaches the output through the head's alone: Δw · H_w."""
    params, (x, w) = random_mlp(), batch(6)
    params["hidden1.kernel"][D:] = 0.0
    other = np.roll(w, 1, axis=0)
    change = apply_mlp(params, x, other) - apply_mlp(params, x, w)
    expected = (other - w) @ params["head.kernel"][CELLS:]
    assert np.abs(expected).min() > 1e-4
    np.testing.assert_allclose(change, expected, rtol=1e-4, atol=1e-6)


def test_weight_enters_the_first_layer() -> None:
    """With the head's rows for w zeroed too, the output still changes; with both zeroed it does not."""
    params, (x, w) = random_mlp(), batch(6)
    other = np.roll(w, 1, axis=0)
    params["head.kernel"][CELLS:] = 0.0
    assert (np.abs(apply_mlp(params, x, other) - apply_mlp(params, x, w)).max(axis=1) > 1e-3).all()
    params["hidden1.kernel"][D:] = 0.0
    np.testing.assert_array_equal(apply_mlp(params, x, other), apply_mlp(params, x, w))


def test_leading_axis_is_policies_side_by_side() -> None:
    singles = [random_mlp(seed) for seed in range(3)]
    inputs = [batch(6, seed) for seed in range(3)]
    stacked = {name: np.stack([single[name] for single in singles]) for name in singles[0]}
    x, w = (np.stack(parts) for parts in zip(*inputs, strict=True))
    expected = [apply_mlp(*case) for case in zip(singles, x, w, strict=True)]
    np.testing.assert_allclose(apply_mlp(stacked, x, w), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("fan_in", "fan_out"), [(7, 4), (4, 7), (5, 5)])
def test_orthogonal(fan_in: int, fan_out: int) -> None:
    """Columns of a tall matrix, rows of a wide one, are orthonormal."""
    kernel = orthogonal(np.random.default_rng(3), fan_in, fan_out).astype(float)
    gram = kernel.T @ kernel if fan_in >= fan_out else kernel @ kernel.T
    np.testing.assert_allclose(gram, np.eye(min(fan_in, fan_out)), atol=1e-6)


def test_orthogonal_is_haar_distributed() -> None:
    """Without the sign correction LAPACK's first entry is never positive; Haar's is so half of the time.

    400 draws: the share lies within 0.5 ± 4·sqrt(0.25/400) = 0.5 ± 0.1.
    """
    rng = np.random.default_rng(0)
    positive = np.mean([orthogonal(rng, 3, 3)[0, 0] > 0 for _ in range(400)])
    assert 0.4 < positive < 0.6


def make_params(discrete: bool) -> dict[str, dict[str, np.ndarray]]:
    return init_params(
        np.random.default_rng(5),
        observation_size=10,
        num_objectives=3,
        action_size=4,
        discrete=discrete,
        cells=16,
        log_std=-0.7,
    )


@pytest.mark.parametrize(
    ("part", "layer", "gain", "shape"),
    [
        ("actor", "hidden1", np.sqrt(2), (13, 16)),  # observation ⊕ w: 10 + 3
        ("actor", "hidden2", np.sqrt(2), (16, 16)),
        ("actor", "head", 0.01, (19, 4)),  # hidden ⊕ w: 16 + 3
        ("critic", "hidden1", np.sqrt(2), (13, 16)),
        ("critic", "hidden2", np.sqrt(2), (16, 16)),
        ("critic", "head", 1.0, (19, 3)),  # a value per objective
    ],
)
def test_initial_gains(part: str, layer: str, gain: float, shape: tuple[int, int]) -> None:
    """gain·Q has all singular values equal to the gain."""
    params = make_params(discrete=False)[part]
    kernel = params[f"{layer}.kernel"]
    assert kernel.shape == shape
    assert kernel.dtype == np.float32
    singular = np.linalg.svd(kernel.astype(float), compute_uv=False)
    np.testing.assert_allclose(singular, gain, rtol=1e-5)
    np.testing.assert_array_equal(params[f"{layer}.bias"], np.zeros(shape[1]))


def test_log_std_belongs_to_box_actions_only() -> None:
    box, discrete = make_params(discrete=False), make_params(discrete=True)
    np.testing.assert_array_equal(box["actor"]["log_std"], np.full(4, -0.7, np.float32))
    assert "log_std" not in discrete["actor"]
    assert "log_std" not in box["critic"]


def test_actor_and_critic_start_apart() -> None:
    params = make_params(discrete=False)
    assert not np.array_equal(params["actor"]["hidden1.kernel"], params["critic"]["hidden1.kernel"])


def test_box_action_is_mean_plus_scaled_noise() -> None:
    # mean (1, −1), std (e^0, e^{ln 2}) = (1, 2), noise (0.5, −1.5): (1.5, −4).
    actor = {"log_std": np.array([0.0, np.log(2.0)], np.float32)}
    output, noise = np.array([[1.0, -1.0]], np.float32), np.array([[0.5, -1.5]], np.float32)
    np.testing.assert_allclose(add_noise(actor, output, noise), [[1.5, -4.0]], rtol=1e-6)
    np.testing.assert_array_equal(greedy_action(output, discrete=False), output)


def test_box_action_uses_each_policy_s_own_std() -> None:
    # K = 2 policies with stds 1 and 10, three inputs each, noise 1: the actions are the stds.
    actor = {"log_std": np.log(np.array([[1.0], [10.0]]))}
    action = add_noise(actor, np.zeros((2, 3, 1)), np.ones((2, 3, 1)))
    np.testing.assert_allclose(action, np.array([1.0, 10.0])[:, None, None] * np.ones((2, 3, 1)))


def test_discrete_choice_is_the_largest_logit() -> None:
    logits = np.array([[0.0, 2.0, 1.0], [3.0, -1.0, 2.9]])
    np.testing.assert_array_equal(greedy_action(logits, discrete=True), [1, 0])
    # Noise (0, −2, 0) makes the first row (0, 0, 1): the third choice wins.
    noisy = add_noise({}, logits, np.array([[0.0, -2.0, 0.0]] * 2))
    np.testing.assert_array_equal(greedy_action(noisy, discrete=True), [2, 0])


def test_gumbel_maximum_draws_from_the_softmax() -> None:
    """40,000 draws: a share p is off by less than 4·sqrt(p(1−p)/40,000) ≤ 0.01."""
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    noise = np.asarray(jax.random.gumbel(jax.random.key(0), (40_000, 4)))
    choice = greedy_action(add_noise({}, np.tile(logits, (40_000, 1)), noise), discrete=True)
    shares = np.bincount(choice, minlength=4) / 40_000
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.15, 0.05], atol=0.01)
