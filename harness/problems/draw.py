"""How positions are drawn: recipes that several problems share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from harness.contract.problem import FloatArray

CLUSTERED_SEED = 7
BLOB_PARTICLES = 150
BLOB_SIGMA = 0.35
PARTICLES_PER_BLOB = 2000

_Words = npt.NDArray[np.uint64]
_LANES = 8
_BLOCK = 256  # steps every block advances alone; the jump between blocks is one 256 x 256 matrix over GF(2)
_FORK = np.array([0x02011CE34BCE797F, 0x5A94851FB48A6E05, 0x3688CF5D48899FA7, 0x867B4BB4C42E5661], np.uint64)


def clustered(n: int, d: int, length: float) -> FloatArray:
    """n / 2000 Gaussian blobs of 150 particles, sigma 0.35, in an otherwise uniform box, where padding hurts.

    Args:
        n: particles.
        d: dimensions.
        length: side of the box.

    Returns:
        (n, d) float64 in [0, length).
    """
    rng = np.random.default_rng(CLUSTERED_SEED)
    blobs = max(1, n // PARTICLES_PER_BLOB) if n >= BLOB_PARTICLES else 0
    centres = np.repeat(rng.uniform(0.0, length, (blobs, d)), BLOB_PARTICLES, axis=0)
    inside = centres + rng.normal(0.0, BLOB_SIGMA, centres.shape)
    uniform = rng.uniform(0.0, length, (n - len(inside), d))
    return np.mod(np.concatenate([inside, uniform]), length)


def uniform(seed: int, n: int, d: int, length: float) -> Callable[[], FloatArray]:
    """NumPy's uniform positions, (n, d) float64 in [0, length)."""
    return lambda: np.random.default_rng(seed).random((n, d)) * length


def points(d: int, *rows: tuple[float, ...]) -> Callable[[], FloatArray]:
    """These positions, (n, d) float64."""
    return lambda: np.array(rows, np.float64).reshape(-1, d)


def jittered_grid(side: int, spacing: float, jitter: float) -> Callable[[], FloatArray]:
    """A simple cubic lattice of side^3 sites from half a spacing on, each coordinate jittered: (side^3, 3) float64."""

    def positions() -> FloatArray:
        axis = (np.arange(side) + 0.5) * spacing
        sites = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
        return sites + np.random.default_rng(side).normal(0.0, jitter, sites.shape)

    return positions


def translated(positions: Callable[[], FloatArray], length: float) -> Callable[[], FloatArray]:
    """The same, each particle moved by up to three whole boxes along every axis, either way."""

    def far_away() -> FloatArray:
        x = positions()
        return x + length * np.random.default_rng(5).integers(-3, 4, x.shape)

    return far_away


def with_bad_row(positions: Callable[[], FloatArray], value: float) -> Callable[[], FloatArray]:
    """The same, the first coordinate of row 7 another."""

    def bad() -> FloatArray:
        x = positions()
        x[7, 0] = value
        return x

    return bad


def julia_uniform(seed: int, count: int) -> npt.NDArray[np.float64]:
    """`rand(Xoshiro(seed), count)` of Julia 1.11 and later, bit for bit.

    The seed's SHA-256 digest is the state of xoshiro256++ (Blackman and Vigna 2021). Eight or more numbers are drawn by
    eight streams forked from it, interleaved; what is left over comes from the parent stream.

    Args:
        seed: non-negative integer.
        count: how many numbers.

    Returns:
        (count,) float64 in [0, 1).
    """
    parent = _seeded(seed)
    streams = count // _LANES if count >= _LANES else 0
    words = np.empty(count, np.uint64)
    if streams:
        lanes = _FORK[:, None] * _draw(parent, 4 * _LANES).reshape(4, _LANES)
        words[: streams * _LANES] = _interleaved(lanes, streams).ravel()
    words[streams * _LANES :] = _draw(parent, count - streams * _LANES)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _seeded(seed: int) -> _Words:
    """State (4, 1) of a seed: SHA-256 of its little-endian uint32 words."""
    size = 4 * max(1, -(-seed.bit_length() // 32))
    return (
        np.frombuffer(hashlib.sha256(seed.to_bytes(size, "little")).digest(), "<u8").astype(np.uint64)[:, None].copy()
    )


def _step(state: _Words) -> _Words:
    """One output of every lane of xoshiro256++; advances `state` (4, lanes) in place."""
    s0, s1, s2, s3 = state
    output = _rotate(s0 + s3, 23) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3[:] = _rotate(s3, 45)
    return output


def _rotate(words: _Words, left: int) -> _Words:
    return (words << np.uint64(left)) | (words >> np.uint64(64 - left))


def _draw(state: _Words, count: int) -> _Words:
    """The next `count` outputs of one stream, state (4, 1)."""
    return np.array([_step(state)[0] for _ in range(count)], np.uint64)


def _interleaved(lanes: _Words, steps: int) -> _Words:
    """Outputs (steps, lanes) of streams that advance together.

    The state's step is linear over GF(2): blocks of `_BLOCK` steps start from jumped states, found by doubling, and
    then all advance at once.
    """
    blocks = -(-steps // _BLOCK)
    starts = lanes[None]
    jump = _jump_matrix()
    while len(starts) < blocks:
        starts = np.concatenate([starts, _apply(jump, starts)])
        jump = jump @ jump % 2.0
    state = np.ascontiguousarray(starts[:blocks].transpose(1, 0, 2).reshape(4, -1))
    outputs = np.stack([_step(state) for _ in range(_BLOCK)])
    return outputs.reshape(_BLOCK, blocks, -1).transpose(1, 0, 2).reshape(blocks * _BLOCK, -1)[:steps]


def _jump_matrix() -> npt.NDArray[np.float32]:
    """Matrix over GF(2) of `_BLOCK` steps on the 256 state bits; float32 so that products run through BLAS, exactly."""
    unit = _words(np.eye(256, dtype=np.float32))
    for _ in range(_BLOCK):
        _step(unit)
    return _bits(unit)


def _apply(matrix: npt.NDArray[np.float32], states: _Words) -> _Words:
    """The matrix on every state of (blocks, 4, lanes)."""
    blocks, _, lanes = states.shape
    columns = states.transpose(1, 0, 2).reshape(4, -1)
    return _words(matrix @ _bits(columns) % 2.0).reshape(4, blocks, lanes).transpose(1, 0, 2)


def _bits(words: _Words) -> npt.NDArray[np.float32]:
    """(4, k) words to (256, k) bits as 0.0 and 1.0."""
    octets = np.ascontiguousarray(words.T).astype("<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").T.astype(np.float32)


def _words(bits: npt.NDArray[np.float32]) -> _Words:
    """Inverse of `_bits`."""
    octets = np.packbits(np.ascontiguousarray(bits.T, np.uint8), axis=1, bitorder="little")
    return np.ascontiguousarray(octets.view("<u8").astype(np.uint64).T)
