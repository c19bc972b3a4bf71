"""Hard inputs, the same right answer in both frameworks: values known in closed form, errors that name the argument."""

import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from segment_examples import SHUFFLED, VARIANTS, operands, sized, worst

from implementations.segment_ops import jax_ops, torch_ops


class Jax:
    """What the cases need of JAX."""

    ops = jax_ops
    array = staticmethod(jnp.asarray)
    numpy = staticmethod(np.asarray)

    @staticmethod
    def grad(f, x):
        return jax.grad(f)(x)


class Torch:
    """What the cases need of Torch."""

    ops = torch_ops
    array = staticmethod(torch.tensor)

    @staticmethod
    def numpy(tensor):
        return tensor.detach().numpy()

    @staticmethod
    def grad(f, x):
        return torch.func.grad(f)(x)


both = pytest.mark.parametrize("lib", [Jax, Torch])
precisions = pytest.mark.parametrize("dtype", ["float64", "float32"])
variants = pytest.mark.parametrize("variant", VARIANTS)


def _call(lib, variant, idx=None, segments=5, changed=None):
    """A good call of an operation, but for what is given."""
    op, shapes = VARIANTS[variant]
    values = [lib.array(value) for value in operands(shapes)]
    if changed is not None:
        values[changed[0]] = changed[1]
    return getattr(lib.ops, op)(*values, lib.array(np.zeros(12, int) if idx is None else np.asarray(idx)), segments)


# -- empty input -------------------------------------------------------------------------------------------------------


@both
@precisions
def test_no_elements_give_zeros_from_a_dirty_heap(lib, dtype):
    for _ in range(2):
        rubbish = [np.full(64, 7.0e300) for _ in range(2000)]
        del rubbish
        idx = lib.array(np.zeros(0, "int32"))
        for op, shapes in VARIANTS.values():
            x, *rest = (lib.array(np.ones([{12: 0, 5: 3}[shape[0]], *shape[1:]], dtype)) for shape in shapes)
            f = functools.partial(_apply, getattr(lib.ops, op), rest, idx)
            out, grad = lib.numpy(f(x)), lib.numpy(lib.grad(lambda x, f=f: f(x).sum(), x))
            assert not out.any()
            assert out.shape[0] == (0 if op in ("segmented_mul", "segmented_matvec") else 3)
            assert grad.shape == (0, 3)


def _apply(op, rest, idx, x):
    return op(x, *rest, idx, 3)


@both
def test_no_segments_and_no_components(lib):
    none = lib.array(np.zeros(0, int))
    assert lib.numpy(lib.ops.segmented_sum(lib.array(np.zeros((0, 3))), none, 0)).shape == (0, 3)
    assert lib.numpy(lib.ops.segmented_rms_norm(lib.array(np.zeros((0, 3))), none, 0)).shape == (0,)
    assert lib.numpy(lib.ops.segmented_mul(lib.array(np.zeros(0)), lib.array(np.zeros(0)), none, 0)).shape == (0,)
    idx = lib.array(np.zeros(4, int))
    assert lib.numpy(lib.ops.segmented_dot(*[lib.array(np.zeros((4, 0)))] * 2, idx, 2)).tolist() == [0, 0]


@both
def test_vmap_over_no_examples(lib):
    vmap = jax.vmap if lib is Jax else torch.func.vmap
    x, idx = lib.array(np.zeros((0, 3))), lib.array(np.array([0, 0, 1]))
    for op, shape in (("segmented_sum", (0, 2)), ("segmented_mean", (0, 2)), ("segmented_dot", (0, 2))):
        rest = [x] if op == "segmented_dot" else []
        f = getattr(lib.ops, op)
        assert lib.numpy(vmap(lambda *a, f=f: f(*a, idx, 2))(x, *rest)).shape == shape


def test_elements_without_any_segment_are_all_outside():
    for op, shapes in VARIANTS.values():
        f = lambda idx, *a, op=op: getattr(jax_ops, op)(*a, idx, 0)  # noqa: E731
        gradient = lambda idx, *a, f=f: jax.grad(lambda x: f(idx, x, *a[1:]).sum())(a[0])  # noqa: E731
        args = [jnp.zeros(12, int), *map(jnp.ones, sized(shapes, segments=0))]
        for got in (jax.jit(f)(*args), jax.jit(gradient)(*args), jax.vmap(f)(*(arg[None] for arg in args))[0]):
            assert len(got) in (0, 12)
            assert not got.any()


@both
def test_one_segment(lib):
    x, idx = lib.array(np.arange(3000.0)), lib.array(np.zeros(3000, int))
    assert float(lib.ops.segmented_sum(x, idx, 1)[0]) == 2999 * 1500
    assert float(lib.ops.segmented_mean(x, idx, 1)[0]) == 1499.5


# -- ids ---------------------------------------------------------------------------------------------------------------


@both
@variants
@pytest.mark.parametrize(("bad", "text"), [(5, "5"), (-1, "-1"), (2**31 + 1, str(2**31 + 1))])
def test_id_out_of_range_is_an_error_that_names_it(lib, variant, bad, text):
    idx = np.zeros(12, int)
    idx[7] = bad
    with pytest.raises(ValueError, match=rf"idx must lie in \[0, num_segments=5\).*{text}"):
        _call(lib, variant, idx)


@both
@variants
@pytest.mark.parametrize("length", [0, 11, 13])
def test_ids_of_another_length_are_an_error_that_names_both(lib, variant, length):
    with pytest.raises(ValueError, match=f"idx has length {length} but . has length 12"):
        _call(lib, variant, np.zeros(length, int))


@both
@variants
def test_wrong_dtypes_and_ranks_name_the_argument(lib, variant):
    with pytest.raises(TypeError, match="idx must be int32 or int64, got float64"):
        _call(lib, variant, np.zeros(12))
    with pytest.raises(TypeError, match="idx must be int32 or int64, got int16"):
        _call(lib, variant, np.zeros(12, "int16"))
    with pytest.raises(ValueError, match="idx must have rank 1"):
        _call(lib, variant, np.zeros((12, 1), int))
    with pytest.raises(TypeError, match=r"must be float32 or float64, got int32"):
        _call(lib, variant, changed=(0, lib.array(np.zeros((12, 3), "int32"))))
    with pytest.raises(ValueError, match=r"must have rank .*\(2, 12, 3, 1\)"):
        _call(lib, variant, changed=(0, lib.array(np.zeros((2, 12, 3, 1)))))
    with pytest.raises(ValueError, match="num_segments must not be negative, got -1"):
        _call(lib, variant, segments=-1)
    for segments in (2.0, None, True):
        with pytest.raises(TypeError, match="num_segments must be an integer"):
            _call(lib, variant, segments=segments)


@both
@pytest.mark.parametrize("variant", ["dot", "mul", "matvec"])
def test_second_operand_must_fit_the_first(lib, variant):
    shape = VARIANTS[variant][1][1]
    with pytest.raises(TypeError, match=r"is float64 but . is float32"):
        _call(lib, variant, changed=(1, lib.array(np.zeros(shape, "float32"))))
    with pytest.raises(ValueError, match=r"must have shape .* got"):
        _call(lib, variant, changed=(1, lib.array(np.zeros((shape[0] + 1, *shape[1:])))))


def test_traced_ids_out_of_range_are_dropped_in_jax():
    @jax.jit
    def value_and_grad(x, idx, weights):
        f = lambda x: jnp.sum(weights * jax_ops.segmented_sum(x, idx, 2))  # noqa: E731
        return jax_ops.segmented_sum(x, idx, 2), jax.grad(f)(x)

    weights = jnp.array([10.0, 100.0])
    value, grad = value_and_grad(jnp.array([1.0, 1.0]), jnp.array([2, 3]), weights)
    assert (value.tolist(), grad.tolist()) == ([0, 0], [0, 0])
    value, grad = value_and_grad(jnp.array([1.0, 2.0, 4.0]), jnp.array([-1, 0, 1]), weights)
    assert (value.tolist(), grad.tolist()) == ([2, 4], [0, 10, 100])


def test_known_ids_are_checked_inside_a_trace():
    for idx in (np.array([0, 2]), jnp.array([0, 2])):
        with pytest.raises(ValueError, match="idx must lie in"):
            jax.jit(lambda x, idx=idx: jax_ops.segmented_sum(x, idx, 2))(jnp.ones(2))


def test_mapped_ids_out_of_range_are_dropped_in_torch():
    ids, weights = torch.tensor([[-1, 0, 1], [2, 1, 1]]), torch.tensor([10.0, 100.0])
    f = lambda x, idx: (weights * torch_ops.segmented_sum(x, idx, 2)).sum()  # noqa: E731
    x = torch.tensor([1.0, 2.0, 4.0])
    assert torch.func.vmap(lambda i: torch_ops.segmented_sum(x, i, 2))(ids).tolist() == [[2, 4], [0, 6]]
    assert torch.func.vmap(torch.func.grad(f), (None, 0))(x, ids).tolist() == [[0, 10, 100], [0, 100, 100]]


def test_torch_wants_tensors_on_one_device():
    with pytest.raises(TypeError, match=r"x must be a torch\.Tensor, got ndarray"):
        torch_ops.segmented_sum(np.ones(2), torch.tensor([0, 0]), 1)
    with pytest.raises(ValueError, match="x is on meta but idx is on cpu"):
        torch_ops.segmented_sum(torch.ones(2, device="meta"), torch.tensor([0, 0]), 1)


# -- batches, known by value -------------------------------------------------------------------------------------------


@both
def test_vmap_and_hessian_by_value(lib):
    vmap, hessian = (jax.vmap, jax.hessian) if lib is Jax else (torch.func.vmap, torch.func.hessian)
    rows, idx = lib.array(np.array([[1.0, 2, 3], [4, 5, 6]])), lib.array(np.array([0, 0, 1]))
    assert lib.numpy(vmap(lambda v: lib.ops.segmented_sum(v, idx, 2))(rows)).tolist() == [[3, 3], [9, 6]]
    x, one = lib.array(np.array([[1.0, 2.0, 2.0]])), lib.array(np.array([0]))
    got = lib.numpy(hessian(lambda x: lib.ops.segmented_rms_norm(x, one, 1).sum())(x)).reshape(3, 3)
    np.testing.assert_allclose(got, np.array([[8, -2, -2], [-2, 5, -4], [-2, -4, 5]]) / 27, rtol=0, atol=1e-14)


# -- empty, zero, tiny and NaN segments --------------------------------------------------------------------------------


@both
@precisions
def test_empty_segment_has_mean_zero(lib, dtype):
    x, idx = lib.array(np.array([1, 2, 3], dtype)), lib.array(np.array([0, 0, 2]))
    assert lib.numpy(lib.ops.segmented_mean(x, idx, 4)).tolist() == [1.5, 0, 3, 0]
    assert lib.numpy(lib.grad(lambda x: lib.ops.segmented_mean(x, idx, 4).sum(), x)).tolist() == [0.5, 0.5, 1]


@both
@precisions
def test_zero_segment_has_zero_derivatives(lib, dtype):
    x, idx = lib.array(np.array([[0, 0, 0], [1, 2, 2]], dtype)), lib.array(np.array([0, 1]))
    f = lambda x: lib.ops.segmented_rms_norm(x, idx, 3)  # noqa: E731
    along = lambda x: lib.grad(lambda x: f(x).sum(), x)[:, 0].sum()  # noqa: E731
    tolerance = 1e-15 if dtype == "float64" else 1e-6
    for got, expected in (
        (f(x), [0, 3, 0]),
        (lib.grad(lambda x: f(x).sum(), x), [[0, 0, 0], [1 / 3, 2 / 3, 2 / 3]]),
        (lib.grad(along, x), [[0, 0, 0], [8 / 27, -2 / 27, -2 / 27]]),
    ):
        np.testing.assert_allclose(lib.numpy(got), expected, rtol=0, atol=tolerance)


@both
@pytest.mark.parametrize("size", [1e-14, 1e-18])
def test_tiny_rows_have_finite_derivatives_in_float32(lib, size):
    unit = np.array([[1, 2, 2], [2, -1, 0.5], [0.25, 1, -2]])
    idx = np.array([0, 0, 1])
    f = lambda ops, idx: lambda x: ops.segmented_rms_norm(x, idx, 2).sum()  # noqa: E731
    along = lambda g: lambda x: g(x)[:, 0].sum()  # noqa: E731
    ours = f(lib.ops, lib.array(idx))
    x, exact = lib.array((size * unit).astype("float32")), jnp.asarray((size * unit).astype("float32"), "float64")
    reference = f(jax_ops, idx)
    grad = lambda x: lib.grad(ours, x)  # noqa: E731
    for got, expected, scale in (
        (ours(x), reference(exact), size),
        (grad(x), jax.grad(reference)(exact), 1),
        (lib.grad(along(grad), x), jax.grad(along(jax.grad(reference)))(exact), 1 / size),
    ):
        np.testing.assert_allclose(lib.numpy(got) / scale, np.asarray(expected) / scale, rtol=0, atol=1e-5)


@both
@precisions
def test_nan_poisons_its_segment_and_no_other(lib, dtype):
    x = lib.array(np.array([[1, 2, 2], [np.nan, 0, 0], [3, 4, 0]], dtype))
    idx = lib.array(np.array([0, 0, 1]))
    value = lib.numpy(lib.ops.segmented_rms_norm(x, idx, 2))
    grad = lib.numpy(lib.grad(lambda x: lib.ops.segmented_rms_norm(x, idx, 2).sum(), x))
    assert np.isnan(value).tolist() == [True, False]
    assert np.isnan(grad).all(axis=1).tolist() == [True, True, False]
    assert np.isfinite(grad[2]).all()


# -- memory layout and buffers -----------------------------------------------------------------------------------------


def test_strided_and_expanded_tensors():
    idx = torch.tensor([0, 0, 1])
    assert torch_ops.segmented_sum(torch.arange(1.0, 7)[::2], idx, 2).tolist() == [4, 5]
    x = torch.tensor([[1.0, 0], [2, 3], [2, 4]]).T.requires_grad_()
    torch_ops.segmented_rms_norm(x, torch.tensor([0, 1]), 2).sum().backward()  # the cotangent has stride 0
    torch.testing.assert_close(x.grad, torch.tensor([[1 / 3, 2 / 3, 2 / 3], [0, 0.6, 0.8]]))
    rows = torch.ones(1, 3).expand(4, 3)
    assert torch_ops.segmented_dot(rows, rows, torch.tensor([0, 1, 1, 1]), 2).tolist() == [3, 9]
    v, m = torch.randn(3, 4).T, torch.randn(2, 3, 3).transpose(1, 2)
    ids = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1])[::2] + torch.tensor([0, 1, 0, 1])
    torch.testing.assert_close(
        torch_ops.segmented_matvec(v, m, ids, 2), torch_ops.segmented_matvec(v.contiguous(), m.contiguous(), ids, 2)
    )


def test_transposed_jax_arrays():
    x = jnp.array([[1.0, 0], [2, 3], [2, 4]]).T
    grad = jax.grad(lambda x: jax_ops.segmented_rms_norm(x, np.array([0, 1]), 2).sum())(x)
    np.testing.assert_allclose(grad, [[1 / 3, 2 / 3, 2 / 3], [0, 0.6, 0.8]], rtol=0, atol=1e-15)


def test_second_backward_repeats_the_first():
    x, idx = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([0, 0, 1])
    out, cotangent = torch_ops.segmented_sum(x, idx, 2), torch.tensor([10.0, 100.0])
    for _ in range(2):
        (grad,) = torch.autograd.grad(out, x, cotangent, retain_graph=True)
        assert grad.tolist() == [10, 10, 100]
    assert cotangent.tolist() == [10, 100]
    out.backward(cotangent)
    assert x.grad.tolist() == [10, 10, 100]


@pytest.mark.thorough
def test_compiled_code_reads_a_sum_only_when_it_is_complete():
    f = torch.ones(1024, 1)
    batch = torch.zeros(1024, dtype=torch.int64)

    def softened(f):
        total = torch_ops.segmented_sum(f**2, batch, 1) + 1e-6
        return (f**2 + 0.00987654321) / total.index_select(0, batch), torch_ops.segmented_mean(f, batch, 1)

    torch.compiler.reset()
    compiled = torch.compile(softened, fullgraph=True)(f)
    for got, expected in zip(compiled, softened(f), strict=True):
        torch.testing.assert_close(got, expected)
    torch.testing.assert_close(compiled[0], torch.full((1024, 1), 1.00987654321 / 1024))


# -- switches for debugging --------------------------------------------------------------------------------------------


@variants
def test_jit_switched_off(variant):
    op, shapes = VARIANTS[variant]
    f = lambda *a: jnp.sum(jnp.sin(getattr(jax_ops, op)(*a, SHUFFLED, 5)))  # noqa: E731
    values = [jnp.asarray(value) for value in operands(shapes)]
    places = tuple(range(len(values)))
    expected = jax.value_and_grad(f, places)(*values)
    with jax.disable_jit():
        assert worst(jax.tree.leaves(jax.value_and_grad(f, places)(*values)), jax.tree.leaves(expected)) <= 1e-15
        assert _call(Jax, variant).tolist()


@pytest.mark.parametrize("compiled", [True, False])
@variants
def test_debug_nans_says_where_and_only_then(variant, compiled):
    op, shapes = VARIANTS[variant]
    f = lambda *a: getattr(jax_ops, op)(*a, SHUFFLED, 5)  # noqa: E731
    good = [jnp.asarray(value) for value in operands(shapes)]
    bad = [good[0].at[3].set(jnp.nan), *good[1:]]
    with jax.debug_nans(True), jax.disable_jit(not compiled):
        jax.grad(lambda *a: jnp.sum(f(*a)))(*good)  # segment 2 is empty: nothing there is divided by zero
        for transformed in (f, jax.jit(f), jax.grad(lambda *a: jnp.sum(f(*a) ** 2))):
            with pytest.raises(FloatingPointError, match="nan"):
                transformed(*bad)
        with pytest.raises(FloatingPointError, match="nan"):
            jax.vmap(f)(*(value[None] for value in bad))


@pytest.mark.parametrize(
    "switch",
    [
        lambda: jax.debug_infs(True),
        lambda: jax.enable_checks(True),
        jax.checking_leaks,
        lambda: jax.numpy_rank_promotion("raise"),
        lambda: jax.numpy_dtype_promotion("strict"),
    ],
    ids=["debug_infs", "enable_checks", "checking_leaks", "rank promotion", "dtype promotion"],
)
def test_switch_finds_nothing(switch):
    values = [jnp.asarray(value) for value in operands(VARIANTS["matvec"][1])]
    for f in (
        lambda v, m: jax_ops.segmented_matvec(v, m, SHUFFLED, 5),
        lambda v, m: jax_ops.segmented_mean(v, SHUFFLED, 5),
        lambda v, m: jax_ops.segmented_rms_norm(v, SHUFFLED, 5),
        lambda v, m: jax_ops.segmented_mul(v, m[:, 0, 0], SHUFFLED, 5),
    ):
        with switch():
            jax.vmap(jax.grad(lambda v, m, f=f: f(v, m).sum(), (0, 1)))(*(value[None] for value in values))


# -- isolation ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "other"),
    [
        ("jax_ops", "torch"),
        pytest.param("torch_ops", "jax", marks=pytest.mark.thorough),
        ("family", "warp"),
        ("plain", "jax"),
        ("plain", "torch"),
    ],
)
def test_a_binding_imports_no_other_framework(module, other):
    code = f"import sys; import implementations.segment_ops.{module}; sys.exit('{other}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
