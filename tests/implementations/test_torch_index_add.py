"""What is particular to the Torch row: the half stencil, the chunks, and where its gradient comes from."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness.check.oracle import reference
from harness.contract.protocol import CapacityOverflowError
from harness.problems.sph2d import Sph2d
from implementations.torch_index_add import forward, implementation
from implementations.torch_index_add.implementation import TorchIndexAdd


def _positions(n, length, seed=0):
    return np.random.default_rng(seed).random((n, 2)) * length


def _candidates(cells):
    """Unordered candidate pairs of a half stencil, as sorted tuples of positions in the sorted order."""
    return sorted(
        (min(k, j), max(k, j))
        for k, (firsts, lasts) in enumerate(zip(cells.first.tolist(), cells.last.tolist(), strict=True))
        for first, last in zip(firsts, lasts, strict=True)
        for j in range(first, last)
    )


@pytest.mark.parametrize("cells_per_side", [1, 2, 3, 4, 7])
def test_half_stencil_meets_every_pair_of_adjacent_cells_once(cells_per_side):
    problem = Sph2d(cells_per_side + 0.3)
    x = torch.tensor(_positions(12 * cells_per_side**2, problem.box_length))
    cells = forward.sort_into_cells(x, problem)
    sorted_positions = torch.stack([cells.x, cells.y], 1).numpy()
    cell = problem.cell_coordinates(sorted_positions, cells_per_side)
    apart = np.abs(cell[:, None] - cell)
    adjacent = (np.minimum(apart, cells_per_side - apart) <= 1).all(axis=2)
    i, j = np.nonzero(np.triu(adjacent, 1))
    assert _candidates(cells) == sorted(zip(i.tolist(), j.tolist(), strict=True))


@pytest.mark.parametrize("n", [0, 1, 50, 1000])
def test_search_slots_are_the_unordered_pairs_of_the_stencil(n):
    problem = Sph2d.of_size(n)
    x = _positions(n, problem.box_length)
    row = TorchIndexAdd(problem, x, "cpu", "float64")
    assert row.counts(row.to_device(x)).search_slots == (reference("", problem, x).counts.stencil_pairs - n) // 2


@pytest.mark.parametrize("chunk", [500, 4096])
def test_chunks_change_neither_pairs_nor_gradient(monkeypatch, chunk):
    problem = Sph2d(10.0)
    x = _positions(1000, 10.0)
    right = reference("", problem, x)
    monkeypatch.setitem(forward.CHUNK_SLOTS, "cpu", chunk)
    row = TorchIndexAdd(problem, x, "cpu", "float64")
    device_x = row.to_device(x)
    cells = forward.sort_into_cells(device_x, problem)
    chunks = list(forward.search_pairs(cells, problem))
    pairs = torch.cat(chunks, dim=1).sort(0).values
    assert len(chunks) > 1
    assert len(torch.unique(pairs, dim=1).T) == pairs.shape[1] == right.counts.true_pairs // 2
    assert float(row.loss(device_x)) == pytest.approx(right.loss, rel=1e-12)
    assert np.abs(row.grad(device_x).numpy() - right.gradient).max() <= 1e-12 * right.gradient_scale


def _graph_nodes(node, seen):
    if node is not None and node not in seen:
        seen.add(node)
        for parent, _ in node.next_functions:
            _graph_nodes(parent, seen)
    return {n.name() for n in seen}


def test_gradient_is_autograd_through_index_add():
    problem = Sph2d(10.0)
    leaf = torch.tensor(_positions(200, 10.0)).requires_grad_()
    cells = forward.sort_into_cells(leaf, problem)
    loss = forward.density_loss(cells, forward.search_pairs(cells, problem), problem)
    names = _graph_nodes(loss.grad_fn, set())
    assert {"IndexAddBackward0", "IndexSelectBackward0", "torch::autograd::AccumulateGrad"} <= names
    others = {name for name in names if not re.search(r"(Backward\d|::AccumulateGrad)$", name)}
    assert others <= {"_NoopSaveInputsBackward"}, "only checkpoint's own node may not be a Torch operation"


def test_gradient_leaves_the_positions_tensor_alone():
    x = _positions(200, 10.0)
    row = TorchIndexAdd(Sph2d(10.0), x, "cpu", "float64")
    leaf = row.to_device(x).requires_grad_()
    first = row.grad(leaf)
    assert torch.equal(first, row.grad(leaf))
    assert leaf.grad is None


def test_more_pairs_than_memory_are_refused_before_the_search(monkeypatch):
    x = np.full((200, 2), 3.3)
    row = TorchIndexAdd(Sph2d(10.0), x, "cpu", "float64")
    monkeypatch.setattr(implementation.psutil, "virtual_memory", lambda: SimpleNamespace(available=100_000))
    monkeypatch.setattr(forward, "search_pairs", lambda *_: pytest.fail("searched"))
    with pytest.raises(CapacityOverflowError, match=r"19900 candidate pairs may need 159200 bytes; 100000 are free"):
        row.loss(row.to_device(x))
