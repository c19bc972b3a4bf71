"""Every JAX transform of every segment operation, by value, against plain `jax.ops.segment_sum` and indexing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from segment_examples import (
    EMPTY,
    ORDERS,
    OTHER,
    SCALARS,
    SEGMENTS,
    SHUFFLED,
    SORTED,
    VARIANTS,
    operands,
    sized,
    worst,
)
from selection import spread

from implementations.segment_ops import jax_ops
from implementations.segment_ops.plain import JaxPlain

PLAIN = JaxPlain()

# -- the transforms: f(*operands, idx) -> result -----------------------------------------------------------------------


def _loss(f):
    """A scalar whose derivatives of every order are smooth and of order one."""
    return lambda *args: jnp.sum(jnp.sin(f(*args) + 0.3))


def _grad(f, args):
    return jax.grad(_loss(f), tuple(range(len(args) - 1)))(*args)


def _of_grad(scalar, count):
    """The sum of the sine of a scalar's gradient: another scalar, one order higher."""
    gradient = jax.grad(scalar, tuple(range(count)))
    return lambda *args: sum(jnp.sum(jnp.sin(g)) for g in gradient(*args))


def _nested(f, args, order):
    count, scalar = len(args) - 1, _loss(f)
    for _ in range(order - 1):
        scalar = _of_grad(scalar, count)
    return jax.grad(scalar, tuple(range(count)))(*args)


def _at(f, args):
    """The function of the operands alone, the operands, and directions for them."""
    *values, idx = args
    return lambda *a: f(*a, idx), values, [jnp.cos(7 * value) for value in values]


def _jvp(f, args):
    f, values, directions = _at(f, args)
    return jax.jvp(f, values, directions)


def _linearize(f, args):
    f, values, directions = _at(f, args)
    out, linear = jax.linearize(f, *values)
    return out, linear(*directions), linear(*values)


def _jacobian(*transforms, scalar):
    def apply(f, args):
        f, values, _ = _at(_loss(f) if scalar else f, args)
        for transform in reversed(transforms):
            f = transform(f, tuple(range(len(values))))
        return f(*values)

    return apply


EXAMPLES = 3  # in a batch


def _batch(args):
    return [jnp.stack([arg, 2 * arg, jnp.cos(arg)])[:EXAMPLES] for arg in args]


def _ids(idx):
    return jnp.stack([idx, OTHER[: len(idx)], idx[::-1]])[:EXAMPLES]


def _vmap_values(f, args):
    *values, idx = args
    return jax.vmap(f, (*[0] * len(values), None))(*_batch(values), idx)


def _vmap_one_operand(f, args):
    *values, idx = args
    return jax.vmap(f, (*[None] * (len(values) - 1), 0, None))(*values[:-1], *_batch(values[-1:]), idx)


def _vmap_ids(f, args):
    *values, idx = args
    return jax.vmap(f, (*[None] * len(values), 0))(*values, _ids(idx))


def _vmap_both(f, args):
    *values, idx = args
    return jax.vmap(f)(*_batch(values), _ids(idx))


def _vmap_grad(f, args):
    *values, idx = args
    gradient = jax.grad(_loss(f), tuple(range(len(values))))
    return jax.vmap(gradient)(*_batch(values), _ids(idx))


def _grad_vmap(f, args):
    *values, idx = args
    return jax.grad(lambda *a: jnp.sum(jnp.sin(jax.vmap(lambda *b: f(*b, idx))(*a))), tuple(range(len(values))))(
        *_batch(values)
    )


def _scan(f, args):
    f, values, _ = _at(f, args)

    def loss(*a):
        step = lambda carry, scale: (carry + jnp.sum(jnp.sin(f(*(scale * v for v in a)))), carry)  # noqa: E731
        total, partial = jax.lax.scan(step, jnp.zeros(()), jnp.array([1.0, 0.5, 2.0]))
        return total + jnp.sum(partial)

    return loss(*values), *jax.grad(loss, tuple(range(len(values))))(*values)


def _cond(f, args):
    f, values, _ = _at(_loss(f), args)
    branch = lambda *a: jax.lax.cond(jnp.sum(a[0]) < 1e9, f, lambda *b: jnp.zeros(()), *a)  # noqa: E731
    return branch(*values), *jax.grad(branch, tuple(range(len(values))))(*values)


def _checkpoint(f, args):
    f, values, _ = _at(_loss(jax.checkpoint(f)), args)
    return jax.grad(f, tuple(range(len(values))))(*values)


TRANSFORMS = {
    "eager": lambda f, args: f(*args),
    "jit": lambda f, args: jax.jit(f)(*args),
    "grad": _grad,
    "jit of grad": lambda f, args: jax.jit(lambda *a: _grad(f, a))(*args),
    "grad of grad": lambda f, args: _nested(f, args, 2),
    "third derivative": lambda f, args: _nested(f, args, 3),
    "jvp": _jvp,
    "linearize": _linearize,
    "jacfwd": _jacobian(jax.jacfwd, scalar=False),
    "jacrev": _jacobian(jax.jacrev, scalar=False),
    "hessian": _jacobian(jax.hessian, scalar=True),
    "jacfwd of jacrev": _jacobian(jax.jacfwd, jax.jacrev, scalar=True),
    "jacrev of jacrev": _jacobian(jax.jacrev, jax.jacrev, scalar=True),
    "vmap over values": _vmap_values,
    "vmap over one operand": _vmap_one_operand,
    "vmap over ids": _vmap_ids,
    "vmap over both": _vmap_both,
    "vmap of grad": _vmap_grad,
    "grad of vmap": _grad_vmap,
    "scan": _scan,
    "cond": _cond,
    "checkpoint": _checkpoint,
}


def _both(variant, transform, idx, dtype="float64", seed=0, width=3):
    """The largest difference of a transform of the operation and of the plain formula."""
    op, shapes = {**VARIANTS, **SCALARS}[variant]
    args = [*map(jnp.asarray, operands(sized(shapes, width=width), seed, dtype)), jnp.asarray(idx)]
    ours, plain = (lambda *a, f=f: f(*a, SEGMENTS) for f in (getattr(jax_ops, op), getattr(PLAIN, op)))
    got = jax.tree.leaves(TRANSFORMS[transform](ours, args))
    expected = jax.tree.leaves(jax.jit(lambda *a: TRANSFORMS[transform](plain, a))(*args))  # compiled: one compilation
    assert any(np.any(np.asarray(leaf) != 0) for leaf in expected)
    return worst(got, expected)


@pytest.mark.parametrize(("variant", "transform"), spread(VARIANTS, TRANSFORMS, every=6))
def test_transform_gives_the_plain_value(variant, transform):
    assert _both(variant, transform, SHUFFLED) <= 1e-12


@pytest.mark.parametrize(
    ("variant", "transform", "order"), spread(SCALARS, ["eager", "grad", "hessian"], ORDERS, every=4)
)
def test_scalars(variant, transform, order):
    assert _both(variant, transform, ORDERS[order]) <= 1e-12


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "idx", [SORTED, SORTED.astype("int32"), SHUFFLED.astype("int32")], ids=["64", "32", "shuffled 32"]
)
def test_order_and_dtype_of_ids(variant, idx):
    assert _both(variant, "jit of grad", idx) <= 1e-12


@pytest.mark.parametrize(("variant", "transform"), spread(VARIANTS, ["eager", "grad", "grad of grad"], every=3))
def test_float32(variant, transform):
    assert _both(variant, transform, SHUFFLED, dtype="float32") <= 1e-5


@pytest.mark.parametrize(("variant", "width"), spread(VARIANTS, [1, 5, 9], every=3))
def test_width_of_rows(variant, width):
    assert _both(variant, "vmap of grad", SHUFFLED, width=width) <= 1e-12


def _shapes(module, variant, transform, size):
    """Shapes and dtypes of what a transform gives for operands of this size."""
    op, shapes = {**VARIANTS, **SCALARS}[variant]
    elements, segments, width = size
    args = [*map(jnp.ones, sized(shapes, elements, segments, width)), jnp.zeros(elements, int)]
    f = lambda *a: getattr(module, op)(*a, segments)  # noqa: E731
    result = jax.jit(lambda *a: TRANSFORMS[transform](f, a))(*args)  # compiled: ids that are known would be checked
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(result)]


@pytest.mark.parametrize(("transform", "size"), spread(TRANSFORMS, EMPTY, every=16))
def test_shapes_of_empty_operands(size, transform):
    for variant in VARIANTS if "components" in size else {**VARIANTS, **SCALARS}:
        ours, plain = (_shapes(module, variant, transform, EMPTY[size]) for module in (jax_ops, PLAIN))
        assert ours == plain, variant


@pytest.mark.thorough
@pytest.mark.parametrize("transform", [name for name in TRANSFORMS if "vmap" in name])
def test_shapes_of_an_empty_batch(transform, monkeypatch):
    monkeypatch.setitem(globals(), "EXAMPLES", 0)
    for variant in VARIANTS:
        for size in (12, 5, 3), *EMPTY.values():
            ours, plain = (_shapes(module, variant, transform, size) for module in (jax_ops, PLAIN))
            assert ours == plain, (variant, size)


def test_chunks_join_in_long_and_unsorted_runs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 3))
    for idx in (np.zeros(5000, int), np.repeat([2, 0, 4, 2], 1250), np.sort(rng.integers(0, 5, 5000))):
        expected = np.zeros((5, 3))
        np.add.at(expected, idx, x)
        np.testing.assert_allclose(jax_ops.segmented_sum(x, idx, 5), expected, rtol=0, atol=1e-10)


def test_eager_call_compiles_once():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
    )
    x, y, idx = jnp.ones((37, 3)), jnp.zeros((37, 3)), jnp.zeros(37, int)
    jax_ops.segmented_mean(x, idx, 2).block_until_ready()
    assert compiled
    compiled.clear()
    jax_ops.segmented_mean(y, idx, 2).block_until_ready()
    assert not compiled


def test_traced_ids_out_of_range_are_dropped_in_value_and_gradient():
    for variant, (op, shapes) in VARIANTS.items():
        f, args = getattr(jax_ops, op), operands(shapes)
        bad = SHUFFLED.copy()
        bad[[1, 5, 7]] = [-1, SEGMENTS, 2**32]
        keep = np.isin(np.arange(12), [1, 5, 7], invert=True)
        kept = [a[keep] if len(a) == 12 else a for a in args]
        full = jax.jit(lambda idx, *a, f=f: _grad(lambda *b: f(*b, SEGMENTS), (*a, idx)))(bad, *args)
        part = _grad(lambda *b, f=f: f(*b, SEGMENTS), (*map(jnp.asarray, kept), bad[keep]))
        for whole, left in zip(full, part, strict=True):
            rows = len(whole) == 12
            assert worst([whole[keep] if rows else whole], [left]) <= 1e-12, variant
            assert not rows or not np.any(whole[~keep]), variant
