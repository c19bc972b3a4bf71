"""Inputs of each operation, and how results are compared."""

import numpy as np

SEGMENTS = 5  # segment 2 is empty
SORTED = np.array([0, 0, 0, 0, 1, 1, 1, 3, 3, 3, 4, 4])
SHUFFLED = np.array([3, 0, 1, 0, 4, 3, 3, 0, 1, 4, 0, 1])
OTHER = np.array([4, 4, 0, 3, 1, 0, 0, 3, 4, 1, 1, 0])
ORDERS = {"sorted": SORTED, "shuffled": SHUFFLED}

# variant -> (operation, shapes of its operands)
VARIANTS = {
    "sum": ("segmented_sum", [(12, 3)]),
    "mean": ("segmented_mean", [(12, 3)]),
    "dot": ("segmented_dot", [(12, 3), (12, 3)]),
    "mul": ("segmented_mul", [(12, 3), (5,)]),
    "rms_norm": ("segmented_rms_norm", [(12, 3)]),
    "matvec": ("segmented_matvec", [(12, 3), (5, 3, 3)]),
}
SCALARS = {
    "sum of scalars": ("segmented_sum", [(12,)]),
    "mean of scalars": ("segmented_mean", [(12,)]),
    "dot of scalars": ("segmented_dot", [(12,), (12,)]),
    "mul of scalars": ("segmented_mul", [(12,), (5,)]),
}

# what no dimension of an operand may break: name -> elements, segments, components
EMPTY = {
    "no elements": (0, 5, 3),
    "no components": (12, 5, 0),
    "no segments": (0, 0, 3),
    "nothing": (0, 0, 0),
}


def operands(shapes, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def sized(shapes, elements=12, segments=SEGMENTS, width=3):
    """The same operands for other numbers of elements, segments and components."""
    sizes = {12: elements, SEGMENTS: segments, 3: width}
    return [tuple(sizes[size] for size in shape) for shape in shapes]


def worst(got, expected):
    """The largest difference of two lists of arrays over the largest expected value, at least 1; NaN if any."""
    assert len(got) == len(expected)
    worst = 0.0
    for a, b in zip(got, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if b.size:
            worst = np.maximum(worst, np.max(np.abs(a - b)) / max(1.0, np.max(np.abs(b))))
    return worst
