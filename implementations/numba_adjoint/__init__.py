"""Numba: SIMD loops over the half stencil of each cell, hand-written adjoint, threads over rows of cells."""
