"""The oracle against values computed elsewhere, numerical integrals and finite differences."""

import numpy as np
import pytest

from harness.check import judgement, oracle
from harness.check.reference import load, save
from harness.problems.sph2d import Sph2d, clustered_positions, published_positions

# loss, |g|_2, true pairs, fullest cell, 3x3 pairs: printed in the study (N = 1000) or computed from its input elsewhere
PUBLISHED = {
    1_000: (12476.361742879, 7526.066606, 31_496, 23, None),
    100_000: (1277189.362799496, 78785.053503, 3_142_324, 26, 9_097_634),
    1_000_000: (12784617.80790205, 250740.237323, 31_397_712, 26, 91_105_454),
}


@pytest.mark.parametrize("n", [1_000, 100_000, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_published_input_gives_the_study_figures(n: int) -> None:
    loss, norm, pairs, fullest, stencil = PUBLISHED[n]
    right = oracle.reference("published", Sph2d.of_size(n), published_positions(n))
    assert right.loss == pytest.approx(loss, rel=1e-12)
    assert np.linalg.norm(right.gradient) == pytest.approx(norm, abs=1e-6)
    assert (right.counts.true_pairs, right.counts.max_occupancy) == (pairs, fullest)
    assert stencil in (None, right.counts.stencil_pairs)


def test_finite_difference_sees_a_wrong_gradient() -> None:
    positions = published_positions(1_000)
    right = oracle.reference("published", Sph2d.of_size(1_000), positions)
    shift = 1e-5 * judgement.direction((1_000, 2))
    losses = tuple(oracle.loss_only(Sph2d.of_size(1_000), positions + s) for s in (shift, -shift))
    wrong = judgement.finite_difference(right, right.gradient * (1 + 1e-4), 1e-5, losses)
    assert wrong > judgement.FINITE_DIFFERENCE_TOLERANCE


def test_tree_and_all_pairs_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = clustered_positions(3_000)
    problem = Sph2d.of_size(3_000)
    dense = oracle.reference("clustered", problem, positions)
    monkeypatch.setattr(oracle, "ALL_PAIRS_LIMIT", 0)
    tree = oracle.reference("clustered", problem, positions)
    assert tree.counts == dense.counts
    assert tree.loss == pytest.approx(dense.loss, rel=1e-13)
    np.testing.assert_allclose(tree.gradient, dense.gradient, atol=1e-13 * dense.gradient_scale)


def test_kernel_has_the_known_values() -> None:
    assert Sph2d(10.0).pair(np.array([0.0, 0.5, 1.0, 5.0])).tolist() == pytest.approx(
        [1.8189136353359467, 0.4547284088339867, 0.0, 0.0], rel=1e-15
    )


def test_references_survive_the_file(tmp_path: object) -> None:
    path = tmp_path / "r.npz"  # type: ignore[operator]
    written = list(oracle.references("hard", 0, "float32"))
    save(path, written)
    read = load(path)
    assert [r.name for r in read] == [r.name for r in written]
    for a, b in zip(read, written, strict=True):
        assert (a.loss, a.counts, a.problem, a.refusal) == (b.loss, b.counts, b.problem, b.refusal)
        np.testing.assert_array_equal(a.positions, b.positions, strict=True)
        np.testing.assert_array_equal(a.gradient, b.gradient, strict=True)
