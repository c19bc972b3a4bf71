"""Warp row: sorted cells, data-dependent ranges, hand-written adjoint that gathers."""
