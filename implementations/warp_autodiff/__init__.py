"""Warp row: the cells of warp_adjoint, differentiated by Warp's own reverse mode (wp.Tape)."""
