"""What is particular to the rows over padded cells: the capacity, the memory, and who makes the derivative."""

import jax
import numpy as np
import pytest

from harness.check.oracle import reference
from harness.problems.sph2d import Sph2d
from implementations.jax_cell_list.implementation import JaxCellList
from implementations.jax_cell_list_adjoint import adjoint
from implementations.jax_cell_list_adjoint.implementation import JaxCellListAdjoint

PROBLEM = Sph2d(5.0)
N = 120
SPREAD = np.random.default_rng(0).random((N, 2)) * PROBLEM.box_length
CROWDED = np.random.default_rng(1).random((N, 2)) * PROBLEM.cutoff
ROWS = [JaxCellList, JaxCellListAdjoint]


@pytest.mark.thorough
@pytest.mark.parametrize("row_type", ROWS)
def test_crowded_cell_reallocates_and_is_counted(row_type):
    row = row_type(PROBLEM, SPREAD, "cpu", "float64")
    capacity = row.capacity
    right = reference("", PROBLEM, CROWDED)
    x = row.to_device(CROWDED)
    row.compile_gradient(x)
    np.testing.assert_allclose(row.to_numpy(row.grad(x)), right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)
    assert float(row.loss(x)) == pytest.approx(right.loss, rel=1e-12)
    assert capacity < row.capacity == right.counts.max_occupancy == N
    assert (row.reallocations, row.recompilations) == (1, 1)
    assert row.counts(x) == (right.counts.true_pairs, 9 * N * N, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("row_type", ROWS)
def test_memory_of_the_gradient_does_not_grow_with_the_capacity(row_type):
    def scratch_bytes(positions):
        row = row_type(PROBLEM, positions, "cpu", "float64")
        x = jax.ShapeDtypeStruct((N, 2), "float64")
        return jax.jit(row.traceable("grad")).lower(x).compile().memory_analysis().temp_size_in_bytes

    assert scratch_bytes(CROWDED) < 1.1 * scratch_bytes(SPREAD)


def test_hand_written_adjoint_scatters_nothing():
    row = JaxCellListAdjoint(PROBLEM, SPREAD, "cpu", "float64")
    x = jax.ShapeDtypeStruct((N, 2), "float64")
    assert "scatter" not in jax.jit(row.traceable("grad")).lower(x).as_text()
    by_jax = JaxCellList(PROBLEM, SPREAD, "cpu", "float64")
    assert "scatter" in jax.jit(by_jax.traceable("grad")).lower(x).as_text()


def test_hand_written_adjoint_is_scaled_by_its_cotangent():
    row = JaxCellListAdjoint(PROBLEM, SPREAD, "cpu", "float64")
    right = reference("", PROBLEM, SPREAD)
    root = jax.jit(jax.grad(lambda x: adjoint.loss(PROBLEM, row.capacity, x)[0] ** 0.5))(row.to_device(SPREAD))
    np.testing.assert_allclose(
        np.asarray(root) * 2.0 * right.loss**0.5, right.gradient, rtol=0, atol=1e-12 * right.gradient_scale
    )


def test_enzyme_not_jax_makes_the_derivative():
    pytest.importorskip("enzyme_ad")
    from implementations.enzyme_cell_list.implementation import EnzymeCellList

    row = EnzymeCellList(PROBLEM, SPREAD, "cpu", "float64")
    calls = list(_equations(jax.make_jaxpr(row.traceable("grad"))(row.to_device(SPREAD)).jaxpr))
    primal, reverse = (e for e in calls if e.primitive.name == "enzyme_primal")
    assert "mode=ReverseModeCombined" in reverse.params["pipeline_options"].pass_pipeline()
    assert "Reverse" not in primal.params["pipeline_options"].pass_pipeline()
    assert reverse.outvars[0].aval.shape == (N, 2)
    # what JAX would have made of the gathers is nowhere outside Enzyme
    assert not any("scatter" in e.primitive.name for e in calls)
    by_jax = JaxCellList(PROBLEM, SPREAD, "cpu", "float64")
    assert any(
        "scatter" in e.primitive.name
        for e in _equations(jax.make_jaxpr(by_jax.traceable("grad"))(row.to_device(SPREAD)).jaxpr)
    )


def _equations(jaxpr):
    """The equations of a jaxpr and of those inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)
