"""What is particular to the row that calls Warp's kernels inside JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.check.oracle import reference
from harness.problems.sph2d import Sph2d
from implementations._warp.launch import Grid
from implementations.jax_warp_adjoint import adjoint

PROBLEM = Sph2d(5.0)
N = 200
GRID = Grid(PROBLEM, N, "float64")


def _positions(seed):
    return np.random.default_rng(seed).random((N, 2)) * PROBLEM.box_length


def _loss(x):
    return adjoint.loss(GRID, x)[0]


def _assert_gradient(gradient, right):
    np.testing.assert_allclose(np.asarray(gradient), right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_loss_and_gradient_inside_and_outside_jit(transform):
    x = jnp.asarray(_positions(0))
    right = reference("", PROBLEM, np.asarray(x))
    assert float(transform(_loss)(x)) == pytest.approx(right.loss, rel=1e-12)
    _assert_gradient(transform(jax.grad(_loss))(x), right)


def test_gradient_is_scaled_by_the_cotangent_and_composes():
    x = jnp.asarray(_positions(0))
    right = reference("", PROBLEM, np.asarray(x))

    @jax.jit
    def root_loss_of_moved(shift):
        return jnp.sqrt(_loss(x + shift))

    shift = jnp.asarray([0.1, -0.2])
    translation = jax.grad(root_loss_of_moved)(shift)
    np.testing.assert_allclose(translation, 0.0, atol=1e-12 * right.gradient_scale)  # the loss knows no origin
    halved = jax.grad(lambda y: 0.5 * _loss(y))(x)
    np.testing.assert_allclose(halved, 0.5 * right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_vmap_treats_each_system_alone(transform):
    batch = np.stack([_positions(seed) for seed in range(3)])
    losses = transform(jax.vmap(_loss))(jnp.asarray(batch))
    gradients = transform(jax.vmap(jax.grad(_loss)))(jnp.asarray(batch))
    rights = [reference("", PROBLEM, x) for x in batch]
    np.testing.assert_allclose(losses, [right.loss for right in rights], rtol=1e-12)
    for gradient, right in zip(gradients, rights, strict=True):
        _assert_gradient(gradient, right)


def test_vmap_of_status_names_the_bad_system():
    batch = np.stack([_positions(seed) for seed in range(3)])
    batch[1, 7, 0] = np.nan
    _, status = jax.vmap(partial(adjoint.loss, GRID))(jnp.asarray(batch))
    assert [int(s) < 0 for s in status] == [False, True, False]


def test_second_derivatives_are_refused():
    x = jnp.asarray(_positions(0))
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.jacrev(jax.grad(_loss))(x)
