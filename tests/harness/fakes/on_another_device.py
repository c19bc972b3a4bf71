from right import Right

from harness.contract.protocol import Description


class Fake(Right):
    """Asked for a GPU, computes on the CPU and says nothing."""

    description = Description(
        title="Elsewhere",
        framework="NumPy",
        neighbours="all pairs",
        adjoint="closed form",
        pair_slots="N^2",
        devices=("cpu", "cuda"),
    )
