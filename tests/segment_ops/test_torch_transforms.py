"""Every Torch transform of every segment operation, by value, against plain `index_add` and indexing."""

import itertools

import pytest
import torch
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
from selection import spread, thorough
from torch import func
from torch.autograd import forward_ad

from implementations.segment_ops import torch_ops
from implementations.segment_ops.plain import TorchPlain

PLAIN = TorchPlain()

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


EXAMPLES = 3  # in a batch


def _batch(values):
    return [torch.stack([value, 2 * value, torch.cos(value)])[:EXAMPLES] for value in values]


def _vmap_values(f, args):
    *values, idx = args
    return func.vmap(f, (*[0] * len(values), None))(*_batch(values), idx)


def _vmap_one_operand(f, args):
    *values, idx = args
    return func.vmap(f, (*[None] * (len(values) - 1), 0, None))(*values[:-1], *_batch(values[-1:]), idx)


def _ids(idx):
    return torch.stack([idx, torch.tensor(OTHER)[: len(idx)], idx.flip(0)])[:EXAMPLES]


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
    args = [torch.tensor(value) for value in [*operands(sized(shapes, width=width), dtype=dtype), idx]]
    got, expected = (
        _flat(TRANSFORMS[transform](lambda *a, f=f: f(*a, SEGMENTS), args))
        for f in (getattr(torch_ops, op), getattr(PLAIN, op))
    )
    assert any((leaf != 0).any() for leaf in expected)
    return worst(got, expected)


@pytest.mark.parametrize(("variant", "transform"), spread(VARIANTS, TRANSFORMS, every=4))
def test_transform_gives_the_plain_value(variant, transform):
    assert _both(variant, transform, SHUFFLED) <= 1e-12


@pytest.mark.parametrize(
    ("variant", "transform", "order"), spread(SCALARS, ["eager", "backward", "func.hessian"], ORDERS, every=4)
)
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


@pytest.mark.parametrize(("variant", "width"), spread(VARIANTS, [1, 2, 9, 13], every=4))
def test_width_of_rows(variant, width):
    assert _both(variant, "double backward", SHUFFLED, width=width) <= 1e-12


def _shapes(module, variant, transform, size):
    """Shapes and dtypes of what a transform gives for operands of this size."""
    op, shapes = {**VARIANTS, **SCALARS}[variant]
    elements, segments, width = size
    values = [torch.ones(shape, dtype=torch.float64) for shape in sized(shapes, elements, segments, width)]
    args = [*values, torch.zeros(elements, dtype=torch.int64)]
    result = TRANSFORMS[transform](lambda *a: getattr(module, op)(*a, segments), args)
    return [(tuple(leaf.shape), leaf.dtype) for leaf in torch.utils._pytree.tree_leaves(result)]


def _shapes_or_error(module, variant, transform, size):
    """As `_shapes`; what Torch says where its own jacrev of jacfwd wants a row that is not there."""
    try:
        return _shapes(module, variant, transform, size)
    except IndexError as error:
        return str(error)


@pytest.mark.parametrize(("transform", "size"), spread(TRANSFORMS, EMPTY, every=16))
def test_shapes_of_empty_operands(size, transform):
    for variant in VARIANTS if "components" in size else {**VARIANTS, **SCALARS}:
        ours, plain = (_shapes_or_error(module, variant, transform, EMPTY[size]) for module in (torch_ops, PLAIN))
        assert ours == plain, variant


@pytest.mark.parametrize("transform", [name for name in TRANSFORMS if "vmap" in name and "compile" not in name])
def test_shapes_of_an_empty_batch(transform, monkeypatch):
    cases = list(itertools.product(VARIANTS, [(12, 5, 3), *EMPTY.values()]))
    # of three examples: Torch's own cannot do with none
    plain = [_shapes(PLAIN, variant, transform, size) for variant, size in cases]
    monkeypatch.setitem(globals(), "EXAMPLES", 0)
    for (variant, size), expected in zip(cases, plain, strict=True):
        ours = _shapes(torch_ops, variant, transform, size)
        assert ours == [((0, *shape[1:]), dtype) for shape, dtype in expected], (variant, size)


class _Calls(torch.utils._python_dispatch.TorchDispatchMode):
    """Records the arguments of every call of the operator."""

    def __init__(self):
        super().__init__()
        self.args = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.pairgrad.segment_product.default:
            self.args.append(args)
        return function(*args, **(kwargs or {}))


@pytest.mark.thorough
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


def _all_operations(module):
    """One function of all operations: f(idx, segments, operands of each)."""

    def run(idx, segments, values):
        ops = [getattr(module, op) for op, _ in VARIANTS.values()]
        return sum(torch.sin(op(*v, idx, segments)).sum() for op, v in zip(ops, values, strict=True))

    return run


def _batches(count):
    """Batches of a training loop, each of other numbers of elements and segments: (idx, segments, operands of each)."""
    for n in range(count):
        elements, segments = 20 + 3 * n, 4 + n
        values = [
            [torch.tensor(v).requires_grad_() for v in operands(sized(shapes, elements, segments), seed=n)]
            for _, shapes in VARIANTS.values()
        ]
        yield torch.arange(elements) * 7 % segments, segments, values


@pytest.mark.parametrize("generator", thorough(["aot_eager", "inductor"], few=[]))
def test_a_training_loop_over_batches_of_any_size_keeps_its_graph(generator):
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend(generator)(graph, inputs)

    torch.compiler.reset()
    ours = torch.compile(_all_operations(torch_ops), fullgraph=True, backend=counted)
    for batch in _batches(12):  # Dynamo gives up at eight graphs of one function
        leaves = [v for group in batch[2] for v in group]
        got, expected = ours(*batch), _all_operations(PLAIN)(*batch)
        assert worst(_flat([got]), _flat([expected])) <= 1e-12
        assert worst(_flat(torch.autograd.grad(got, leaves)), _flat(torch.autograd.grad(expected, leaves))) <= 1e-12
    assert len(graphs) == 2  # one for the first sizes, one for any


@pytest.mark.parametrize("transform", thorough(["compile of func.grad", "compile of vmap"], few=[]))
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_compiled_transform_takes_any_number_of_segments(variant, transform):
    op, shapes = VARIANTS[variant]
    inner = {"compile of func.grad": _func_grad, "compile of vmap": _vmap_values}[transform]
    torch.compiler.reset()
    ours, plain = (
        lambda segments, *args, f=f: inner(lambda *a: f(*a, segments), args)
        for f in (getattr(torch_ops, op), getattr(PLAIN, op))
    )
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for elements in range(20, 32):
        segments = elements - 15
        args = [*map(torch.tensor, operands(sized(shapes, elements, segments))), torch.arange(elements) % segments]
        assert worst(_flat(compiled(segments, *args)), _flat(plain(segments, *args))) <= 1e-12


def test_an_exported_graph_takes_any_number_of_segments():
    class Module(torch.nn.Module):
        def forward(self, x, y, idx):
            return torch_ops.segmented_mul(x, y, idx, y.shape[0]), torch_ops.segmented_mean(x, idx, y.shape[0])

    x, y = map(torch.tensor, operands([(12, 3), (5,)]))
    idx, m = torch.tensor(SHUFFLED), torch.export.Dim("m", min=2)
    exported = torch.export.export(Module(), (x, y, idx), dynamic_shapes=({}, {0: m}, {})).module()
    for segments in (5, 8):
        y = torch.tensor(operands([(segments,)])[0])
        expected = PLAIN.segmented_mul(x, y, idx, segments), PLAIN.segmented_mean(x, idx, segments)
        assert worst(_flat(exported(x, y, idx)), _flat(expected)) <= 1e-12


def test_export_with_any_number_of_rows():
    class Module(torch.nn.Module):
        def forward(self, x, idx):
            return torch_ops.segmented_rms_norm(x, idx, SEGMENTS)

    x, idx = torch.tensor(operands([(12, 3)])[0]), torch.tensor(SHUFFLED)
    n = torch.export.Dim("n", min=2)
    exported = torch.export.export(Module(), (x, idx), dynamic_shapes=({0: n}, {0: n})).module()
    for rows in (5, 12):
        expected = PLAIN.segmented_rms_norm(x[:rows], idx[:rows], SEGMENTS)
        assert worst([exported(x[:rows], idx[:rows])], [expected]) <= 1e-12


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
