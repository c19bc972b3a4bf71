"""Every Torch transform of every segment operation, by value, against plain `index_add` and indexing."""

import pytest
import torch
from segment_examples import ORDERS, OTHER, SCALARS, SEGMENTS, SHUFFLED, SORTED, VARIANTS, operands, with_width, worst
from torch import func
from torch.autograd import forward_ad

from implementations.segment_ops import torch_ops

# -- the plain formulas ------------------------------------------------------------------------------------------------


def _sum(x, idx, segments):
    return x.new_zeros(segments, *x.shape[1:]).index_add(0, idx, x)


def _mean(x, idx, segments):
    count = _sum(torch.ones(len(x), dtype=x.dtype), idx, segments).clamp(min=1)
    return _sum(x, idx, segments) / count.reshape(-1, *[1] * (x.ndim - 1))


def _dot(x, y, idx, segments):
    return _sum((x * y).reshape(len(x), -1).sum(1), idx, segments)


def _mul(x, y, idx, segments):
    return x * y.index_select(0, idx).reshape(-1, *[1] * (x.ndim - 1))


def _rms_norm(x, idx, segments):
    square = _mean((x * x).sum(1), idx, segments)
    return torch.where(square == 0, 0, torch.where(square == 0, 1, square).sqrt())


def _matvec(v, m, idx, segments):
    return torch.einsum("ik,ikl->il", v, m.index_select(0, idx))


PLAIN = {f"segmented_{f.__name__[1:]}": f for f in (_sum, _mean, _dot, _mul, _rms_norm, _matvec)}

# -- the transforms: f(*operands, idx) -> tensors ----------------------------------------------------------------------


def _loss(f):
    """A scalar whose derivatives of every order are smooth and of order one."""
    return lambda *args: torch.sin(f(*args) + 0.3).sum()


def _backward(order):
    def apply(f, args):
        *values, idx = args
        leaves = [value.clone().requires_grad_() for value in values]
        scalar = _loss(f)(*leaves, idx)
        for _ in range(order - 1):
            scalar = sum(torch.sin(g).sum() for g in torch.autograd.grad(scalar, leaves, create_graph=True))
        return torch.autograd.grad(scalar, leaves)

    return apply


def _at(f, args):
    """The function of the operands alone, the operands, directions for them, and their positions."""
    *values, idx = args
    directions = tuple(torch.cos(7 * value) for value in values)
    return lambda *a: f(*a, idx), tuple(values), directions, tuple(range(len(values)))


def _func_grad(f, args):
    f, values, _, places = _at(_loss(f), args)
    return func.grad(f, places)(*values)


def _func_vjp(f, args):
    f, values, _, _ = _at(f, args)
    out, pull = func.vjp(f, *values)
    return out, *pull(torch.cos(out))


def _func_jvp(f, args):
    f, values, directions, _ = _at(f, args)
    return func.jvp(f, values, directions)


def _jacobian(*transforms, scalar):
    def apply(f, args):
        f, values, _, places = _at(_loss(f) if scalar else f, args)
        for transform in reversed(transforms):
            f = transform(f, places)
        return f(*values)

    return apply


def _batch(values):
    return [torch.stack([value, 2 * value, torch.cos(value)]) for value in values]


def _vmap_values(f, args):
    *values, idx = args
    return func.vmap(f, (*[0] * len(values), None))(*_batch(values), idx)


def _vmap_one_operand(f, args):
    *values, idx = args
    return func.vmap(f, (*[None] * (len(values) - 1), 0, None))(*values[:-1], *_batch(values[-1:]), idx)


def _ids(idx):
    return torch.stack([idx, torch.tensor(OTHER), idx.flip(0)])


def _vmap_ids(f, args):
    *values, idx = args
    return func.vmap(f, (*[None] * len(values), 0))(*values, _ids(idx))


def _vmap_both(f, args):
    *values, idx = args
    return func.vmap(f)(*_batch(values), _ids(idx))


def _vmap_grad(f, args):
    *values, idx = args
    return func.vmap(func.grad(_loss(f), tuple(range(len(values)))))(*_batch(values), _ids(idx))


def _grad_vmap(f, args):
    *values, idx = args
    batched = func.vmap(f, (*[0] * len(values), None))
    return func.grad(lambda *a: torch.sin(batched(*a, idx)).sum(), tuple(range(len(values))))(*_batch(values))


def _forward_ad(f, args):
    f, values, directions, _ = _at(f, args)
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(*map(forward_ad.make_dual, values, directions)))


def _hvp(f, args):
    f, values, directions, _ = _at(_loss(f), args)
    return torch.autograd.functional.hvp(f, values, directions)


def _compiled(transform):
    """The transform, traced as a whole by `torch.compile`; the code generator is the business of another test."""

    return lambda f, args: _compile(lambda *a: transform(f, a), args)(*args)


def _compile(f, args):
    torch.compiler.reset()
    return torch.compile(f, fullgraph=True, backend="aot_eager")


def _backward_of_compiled(f, args):
    return _backward(1)(_compile(f, args), args)


def _export(f, args):
    class Module(torch.nn.Module):
        def forward(self, *args):
            return f(*args)

    return torch.export.export(Module(), tuple(args)).module()


def _backward_of_exported(f, args):
    exported = _export(f, args)
    return exported(*args), *_backward(1)(exported, args)


TRANSFORMS = {
    "eager": lambda f, args: f(*args),
    "backward": _backward(1),
    "double backward": _backward(2),
    "third derivative": _backward(3),
    "func.grad": _func_grad,
    "func.vjp": _func_vjp,
    "func.jvp": _func_jvp,
    "func.jacrev": _jacobian(func.jacrev, scalar=False),
    "func.jacfwd": _jacobian(func.jacfwd, scalar=False),
    "func.hessian": _jacobian(func.hessian, scalar=True),
    "jacrev of jacfwd": _jacobian(func.jacrev, func.jacfwd, scalar=True),
    "jacrev of jacrev": _jacobian(func.jacrev, func.jacrev, scalar=True),
    "vmap over values": _vmap_values,
    "vmap over one operand": _vmap_one_operand,
    "vmap over ids": _vmap_ids,
    "vmap over both": _vmap_both,
    "vmap of grad": _vmap_grad,
    "grad of vmap": _grad_vmap,
    "forward_ad": _forward_ad,
    "functional.hvp": _hvp,
    "compile": _compiled(lambda f, args: f(*args)),
    "backward of compile": _backward_of_compiled,
    "compile of func.grad": _compiled(_func_grad),
    "compile of func.jvp": _compiled(_func_jvp),
    "compile of vmap": _compiled(_vmap_values),
    "export": _backward_of_exported,
}


def _flat(tree):
    return [leaf.detach().numpy() for leaf in torch.utils._pytree.tree_leaves(tree)]


def _both(variant, transform, idx, dtype="float64", width=3):
    """The largest difference of a transform of the operation and of the plain formula."""
    op, shapes = {**VARIANTS, **SCALARS}[variant]
    args = [torch.tensor(value) for value in [*operands(with_width(shapes, width), dtype=dtype), idx]]
    got, expected = (
        _flat(TRANSFORMS[transform](lambda *a, f=f: f(*a, SEGMENTS), args)) for f in (getattr(torch_ops, op), PLAIN[op])
    )
    assert any((leaf != 0).any() for leaf in expected)
    return worst(got, expected)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_transform_gives_the_plain_value(variant, transform):
    assert _both(variant, transform, SHUFFLED) <= 1e-12


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("transform", ["eager", "backward", "func.hessian"])
@pytest.mark.parametrize("variant", SCALARS)
def test_scalars(variant, transform, order):
    assert _both(variant, transform, ORDERS[order]) <= 1e-12


@pytest.mark.parametrize("transform", ["eager", "double backward", "func.jvp", "vmap of grad"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sorted_ids(variant, transform):
    assert _both(variant, transform, SORTED) <= 1e-12


@pytest.mark.parametrize("transform", ["eager", "backward", "double backward"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_float32(variant, transform):
    assert _both(variant, transform, SHUFFLED, dtype="float32") <= 1e-5


@pytest.mark.parametrize("width", [1, 2, 9, 13])
@pytest.mark.parametrize("variant", VARIANTS)
def test_width_of_rows(variant, width):
    assert _both(variant, "double backward", SHUFFLED, width=width) <= 1e-12


class _Calls(torch.utils._python_dispatch.TorchDispatchMode):
    """Records the arguments of every call of the operator."""

    def __init__(self):
        super().__init__()
        self.args = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.pairgrad.segment_product.default:
            self.args.append(args)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradcheck_and_opcheck(variant):
    op, shapes = VARIANTS[variant]
    values = [torch.tensor(value, requires_grad=True) for value in operands(shapes)]
    idx = torch.tensor(SHUFFLED, dtype=torch.int32)
    f = lambda *a: getattr(torch_ops, op)(*a, idx, SEGMENTS)  # noqa: E731
    assert torch.autograd.gradcheck(f, values, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, values, check_fwd_over_rev=True)

    with _Calls() as calls:
        f(*(value.detach() for value in values))
    assert calls.args
    for idx, factors, *rest in calls.args:
        leaves = [operand.clone().requires_grad_() for operand in factors]
        torch.library.opcheck(torch.ops.pairgrad.segment_product.default, (idx, leaves, *rest))


def test_inductor_compiles_all_operations_in_one_graph():
    names = list(VARIANTS)
    values = [[torch.tensor(v) for v in operands(VARIANTS[name][1])] for name in names]
    idx = torch.tensor(SHUFFLED)

    def f(module):
        def run(idx, values):
            ops = [module[VARIANTS[name][0]] for name in names]
            return sum(torch.sin(op(*v, idx, SEGMENTS)).sum() for op, v in zip(ops, values, strict=True))

        return run

    ours = f({op: getattr(torch_ops, op) for op, _ in VARIANTS.values()})
    torch.compiler.reset()
    leaves = [[v.clone().requires_grad_() for v in group] for group in values]
    flat = [v for group in leaves for v in group]
    got, expected = torch.compile(ours, fullgraph=True)(idx, leaves), f(PLAIN)(idx, leaves)
    assert worst(_flat([got]), _flat([expected])) <= 1e-12
    assert worst(_flat(torch.autograd.grad(got, flat)), _flat(torch.autograd.grad(expected, flat))) <= 1e-12


def test_export_with_any_number_of_rows():
    class Module(torch.nn.Module):
        def forward(self, x, idx):
            return torch_ops.segmented_rms_norm(x, idx, SEGMENTS)

    x, idx = torch.tensor(operands([(12, 3)])[0]), torch.tensor(SHUFFLED)
    n = torch.export.Dim("n", min=2)
    exported = torch.export.export(Module(), (x, idx), dynamic_shapes=({0: n}, {0: n})).module()
    for rows in (5, 12):
        assert worst([exported(x[:rows], idx[:rows])], [_rms_norm(x[:rows], idx[:rows], SEGMENTS)]) <= 1e-12


@pytest.mark.parametrize(
    ("graph", "transform"),
    [(_compile, "forward_ad"), (_export, "forward_ad"), (_export, "func.jvp")],  # Torch itself refuses the fourth
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_forward_mode_of_a_graph_is_refused(variant, graph, transform):
    op, shapes = VARIANTS[variant]
    args = [torch.tensor(value) for value in [*operands(shapes), SHUFFLED]]
    traced = graph(lambda *a: getattr(torch_ops, op)(*a, SEGMENTS), args)
    with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
        TRANSFORMS[transform](traced, args)


@pytest.mark.parametrize("variant", VARIANTS)
def test_traced_ids_out_of_range_are_dropped_in_value_and_gradient(variant):
    op, shapes = VARIANTS[variant]
    values, bad = [torch.tensor(v) for v in operands(shapes)], torch.tensor(SHUFFLED)
    bad[[1, 5, 7]] = torch.tensor([-1, SEGMENTS, 2**32])
    keep = torch.ones(12, dtype=bool)
    keep[[1, 5, 7]] = False
    f = lambda *a: getattr(torch_ops, op)(*a, SEGMENTS)  # noqa: E731
    full = _backward_of_compiled(f, [*values, bad])
    part = _backward(1)(f, [*(v[keep] if len(v) == 12 else v for v in values), bad[keep]])
    for whole, left in zip(full, part, strict=True):
        rows = len(whole) == 12
        assert worst([whole[keep] if rows else whole], [left]) <= 1e-12
        assert not rows or not whole[~keep].any()
