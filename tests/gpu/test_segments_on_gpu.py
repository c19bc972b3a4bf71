"""On a GPU: sums of the segment operations, where many threads add to one segment, and operands on two devices."""

import numpy as np
import pytest

from harness.run import machine

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not machine.cuda_devices(), reason="no NVIDIA GPU")]
pytest.importorskip("warp")


def _sum_in_jax(x, idx, segments):
    jax = pytest.importorskip("jax")
    from implementations.segment_ops import jax_ops

    with jax.enable_x64(True):
        on_gpu = jax.device_put([x, idx], jax.devices("cuda")[0])
        return np.asarray(jax_ops.segmented_sum(*on_gpu, segments))


def _sum_in_torch(x, idx, segments):
    torch = pytest.importorskip("torch")
    from implementations.segment_ops import torch_ops

    return torch_ops.segmented_sum(*(torch.tensor(a, device="cuda") for a in (x, idx)), segments).cpu().numpy()


@pytest.mark.parametrize("segmented_sum", [_sum_in_jax, _sum_in_torch])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("segments", [1, 24, 4096])
def test_sums_agree_within_tolerance_twice(segments, dtype, tolerance, segmented_sum):
    rng = np.random.default_rng(0)
    x, idx = rng.normal(size=(100_000, 3)).astype(dtype), rng.integers(0, segments, 100_000)
    expected, scale = np.zeros((segments, 3)), np.zeros((segments, 3))
    np.add.at(expected, idx, x)
    np.add.at(scale, idx, np.abs(x))
    for _ in range(2):
        got = segmented_sum(x, idx, segments)
        assert got.dtype == dtype
        assert np.max(np.abs(got - expected)) <= tolerance * scale.max()


def test_two_devices_are_an_error_that_names_both():
    torch = pytest.importorskip("torch")
    from implementations.segment_ops import torch_ops

    with pytest.raises(ValueError, match="x is on cuda:0 but idx is on cpu"):
        torch_ops.segmented_sum(torch.ones(2, device="cuda"), torch.tensor([0, 0]), 1)
