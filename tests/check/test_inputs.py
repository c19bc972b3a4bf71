"""The scenarios against the study's input, its printed figures and Julia's documentation."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from harness.problems.draw import julia_uniform
from harness.problems.sph2d import SCENARIOS, Sph2d, clustered_positions, published_positions

FIXTURE = Path(__file__).parent / "data" / "x0_published_1000.npy"

# start of the SHA-256 of the C-order float64 bytes, fullest cell: made from the same recipe in another language
PUBLISHED = {
    1_000: ("1c39e11699164ebb", 23),
    100_000: ("f5a291f233e32afb", 26),
    1_000_000: ("1ed31a33c9e3fe5f", 26),
}


def occupancy(positions: np.ndarray) -> np.ndarray:
    problem = Sph2d.of_size(len(positions))
    nc = problem.cells_per_side(len(positions))
    cells = problem.cell_coordinates(positions, nc)
    return np.bincount(cells[:, 0] + nc * cells[:, 1], minlength=nc * nc)


def test_julia_uniform_matches_the_documented_stream() -> None:
    assert julia_uniform(1234, 2).tolist() == [0.32597672886359486, 0.5490511363155669]


def test_published_positions_are_the_fixture_bit_for_bit() -> None:
    np.testing.assert_array_equal(published_positions(1_000), np.load(FIXTURE), strict=True)


@pytest.mark.parametrize("n", PUBLISHED)
def test_published_positions_have_the_known_digest_and_fullest_cell(n: int) -> None:
    digest, fullest = PUBLISHED[n]
    positions = published_positions(n)
    assert hashlib.sha256(positions.tobytes()).hexdigest()[:16] == digest
    assert occupancy(positions).max() == fullest


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 9, 15, 16, 17, 4095, 4096, 4097, 8 * 256 * 3 + 5])
def test_julia_uniform_blocks_agree_with_plain_streams(count: int) -> None:
    """The jumped blocks against eight scalar streams written out in Python integers."""
    np.testing.assert_array_equal(julia_uniform(42, count), plain_uniform(42, count))


def plain_uniform(seed: int, count: int) -> np.ndarray:
    mask = (1 << 64) - 1
    fork = (0x02011CE34BCE797F, 0x5A94851FB48A6E05, 0x3688CF5D48899FA7, 0x867B4BB4C42E5661)
    digest = hashlib.sha256(seed.to_bytes(4, "little")).digest()
    parent = [int.from_bytes(digest[8 * j : 8 * j + 8], "little") for j in range(4)]

    def following(s: list[int]) -> int:
        total = (s[0] + s[3]) & mask
        output = ((total << 23 | total >> 41) + s[0]) & mask
        shifted = s[1] << 17 & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = (s[3] << 45 | s[3] >> 19) & mask
        return output

    words: list[int] = []
    if count >= 8:
        rows = [[f * following(parent) & mask for _ in range(8)] for f in fork]
        streams = [list(state) for state in zip(*rows, strict=True)]
        for _ in range(count // 8):
            words += [following(stream) for stream in streams]
    words += [following(parent) for _ in range(count - len(words))]
    return np.array([(word >> 11) * 2.0**-53 for word in words], np.float64)


def test_clustered_positions_fill_cells_far_beyond_the_mean() -> None:
    positions = clustered_positions(100_000)
    fullest, pairs_per_slot = occupancy(positions).max(), 9 * occupancy(positions).max() * 100_000
    assert fullest > 100
    assert pairs_per_slot / 3_142_324 > 3 * 7.4  # against the published input's slots per true pair, 23.4 M / 3.14 M


@pytest.mark.parametrize("scenario", [name for name, each in SCENARIOS.items() if each.timed])
@pytest.mark.parametrize("n", [0, 1, 3, 100, 1_000])
def test_positions_lie_in_the_box_and_repeat(scenario: str, n: int) -> None:
    (drawn,) = SCENARIOS[scenario].inputs(n)
    positions = drawn.positions()
    assert positions.shape == (n, 2)
    assert positions.dtype == np.float64
    assert ((positions >= 0) & (positions < Sph2d.of_size(n).box_length)).all()
    np.testing.assert_array_equal(positions, drawn.positions())
    assert drawn.problem == Sph2d.of_size(n)
