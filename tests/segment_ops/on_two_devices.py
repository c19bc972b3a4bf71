"""Every operation over two devices, by value, against plain composites.

`test_two_devices` runs this in a process that has two.

In a programme for each device (`shard_map`, `pmap`) an operand that is split has one part for each device, another is
the same on both. In a programme for all devices (`jit`) it is the compiler who divides the work.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from segment_examples import OTHER, SEGMENTS, SHUFFLED, VARIANTS, operands, sized, worst

from implementations.segment_ops import jax_ops
from implementations.segment_ops.plain import JaxPlain

PLAIN = JaxPlain()
SPLIT, WHOLE = PartitionSpec("d"), PartitionSpec()


def _mesh(kind=AxisType.Auto):
    return jax.make_mesh((2,), ("d",), axis_types=(kind,))


def _placements(variant):
    """Every choice of the operands, and last the ids, that are split."""
    return list(itertools.product((True, False), repeat=len(VARIANTS[variant][1]) + 1))


def _specs(split):
    return tuple(SPLIT if parted else WHOLE for parted in split)


def _loss(op, segments=SEGMENTS):
    return lambda *args: jnp.sum(jnp.sin(op(*args, segments) + 0.3))


def _places(args):
    """The positions of the operands."""
    return tuple(range(len(args) - 1))


# -- a programme for each device ---------------------------------------------------------------------------------------


def _parts(variant, split, join):
    """The operands and ids, where split the parts of both devices joined."""
    shapes = VARIANTS[variant][1]
    both = zip([*operands(shapes, 0), SHUFFLED], [*operands(shapes, 1), OTHER], strict=True)
    return [join(pair) if parted else jnp.asarray(pair[0]) for pair, parted in zip(both, split, strict=True)]


def _total(op):
    return lambda *args: jax.lax.psum(_loss(op)(*args), "d")


def _grad_outside(op, split, args, check):
    f = jax.shard_map(_total(op), mesh=_mesh(), in_specs=_specs(split), out_specs=WHOLE, check_vma=check)
    return jax.value_and_grad(f, _places(args))(*args)


def _grad_inside(op, split, args, check):
    specs = _specs(split)
    f = jax.value_and_grad(_total(op), _places(args))
    return jax.shard_map(f, mesh=_mesh(), in_specs=specs, out_specs=(WHOLE, specs[:-1]), check_vma=check)(*args)


def _hessian_of_outside(op, split, args, check):
    f = jax.shard_map(_total(op), mesh=_mesh(), in_specs=_specs(split), out_specs=WHOLE, check_vma=check)
    return jax.hessian(f, _places(args))(*args)


def _jvp_inside(op, split, args, check):
    def f(*args):
        *values, idx = args
        return jax.jvp(lambda *a: _total(op)(*a, idx), values, [jnp.cos(7 * value) for value in values])

    return jax.shard_map(f, mesh=_mesh(), in_specs=_specs(split), out_specs=(WHOLE, WHOLE), check_vma=check)(*args)


def _vmap_of_grad_inside(op, split, args, check):
    def f(*args):
        *values, idx = args
        gradient = jax.vmap(jax.grad(_total(op), _places(args)), (*[0] * len(values), None))
        return [g.sum(0) for g in gradient(*(jnp.stack([v, 2 * v]) for v in values), idx)]

    specs = _specs(split)
    return jax.shard_map(f, mesh=_mesh(), in_specs=specs, out_specs=list(specs[:-1]), check_vma=check)(*args)


SHARD_MAP = {
    "grad outside": _grad_outside,
    "grad inside": _grad_inside,
    "hessian outside": _hessian_of_outside,
    "jvp inside": _jvp_inside,
    "vmap of grad inside": _vmap_of_grad_inside,
}


@pytest.mark.parametrize("check", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("route", SHARD_MAP)
@pytest.mark.parametrize("variant", VARIANTS)
def test_shard_map(variant, route, check):
    splits = [split for split in _placements(variant) if any(split)]
    parts = [_parts(variant, split, jnp.concatenate) for split in splits]

    @functools.partial(jax.jit, static_argnums=0)  # all of them in one compilation
    def run(module, parts):
        op = getattr(module, VARIANTS[variant][0])
        return [SHARD_MAP[route](op, split, args, check) for split, args in zip(splits, parts, strict=True)]

    for split, ours, plain in zip(splits, run(jax_ops, parts), run(PLAIN, parts), strict=True):
        assert worst(jax.tree.leaves(ours), jax.tree.leaves(plain)) <= 1e-12, split


def test_shard_map_sums_the_gradient_of_what_all_devices_share():
    x, y, ids = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([1.0, 1.0]), jnp.array([0, 1, 0, 1])
    f = lambda x, y, ids: jax.lax.psum(jax_ops.segmented_mul(x, y, ids, 2).sum(), "d")  # noqa: E731
    for check in (True, False):
        over_all = jax.shard_map(f, mesh=_mesh(), in_specs=(SPLIT, WHOLE, SPLIT), out_specs=WHOLE, check_vma=check)
        by_x, by_y = jax.grad(over_all, (0, 1))(x, y, ids)
        assert (by_x.tolist(), by_y.tolist()) == ([1, 1, 1, 1], [4, 6])


def _pmap_of_grad(op, axes, args):
    return jax.pmap(jax.value_and_grad(_loss(op), _places(args)), "d", in_axes=axes)(*args)


def _pmap_of_grad_of_psum(op, axes, args):
    return jax.pmap(jax.value_and_grad(_total(op), _places(args)), "d", in_axes=axes)(*args)


def _grad_of_pmap(op, axes, args):
    return jax.value_and_grad(lambda *a: jax.pmap(_loss(op), "d", in_axes=axes)(*a).sum(), _places(args))(*args)


PMAP = {"pmap of grad": _pmap_of_grad, "pmap of grad of psum": _pmap_of_grad_of_psum, "grad of pmap": _grad_of_pmap}


@pytest.mark.parametrize("route", PMAP)
@pytest.mark.parametrize("variant", VARIANTS)
def test_pmap(variant, route):
    for split in [split for split in _placements(variant) if any(split)]:
        args, axes = _parts(variant, split, jnp.stack), tuple(0 if parted else None for parted in split)
        ours, plain = (PMAP[route](getattr(module, VARIANTS[variant][0]), axes, args) for module in (jax_ops, PLAIN))
        assert worst(jax.tree.leaves(ours), jax.tree.leaves(plain)) <= 1e-12, split


# -- a programme for all devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("variant", VARIANTS)
def test_jit_of_sharded_arrays(variant, kind):
    op, shapes = VARIANTS[variant]
    args = [*operands(sized(shapes, segments=6)), SHUFFLED]
    f = jax.value_and_grad(_loss(getattr(jax_ops, op), 6), _places(args))
    expected = jax.value_and_grad(_loss(getattr(PLAIN, op), 6), _places(args))(*map(jnp.asarray, args))
    for split in _placements(variant):
        placed = [jax.device_put(a, NamedSharding(_mesh(kind), s)) for a, s in zip(args, _specs(split), strict=True)]
        assert worst(jax.tree.leaves(jax.jit(f)(*placed)), jax.tree.leaves(expected)) <= 1e-12, split
    with jax.set_mesh(_mesh(kind)):
        assert worst(jax.tree.leaves(f(*placed)), jax.tree.leaves(expected)) <= 1e-12


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("variant", VARIANTS)
def test_vmap_over_a_sharded_axis(variant, kind):
    op, shapes = VARIANTS[variant]
    args = [np.stack([a, a[::-1]]) for a in [*operands(shapes), SHUFFLED]]
    gradient = lambda module: jax.vmap(jax.grad(_loss(getattr(module, op)), _places(args)))  # noqa: E731
    placed = [jax.device_put(a, NamedSharding(_mesh(kind), SPLIT)) for a in args]
    expected = gradient(PLAIN)(*map(jnp.asarray, args))
    assert worst(jax.jit(gradient(jax_ops))(*placed), expected) <= 1e-12
