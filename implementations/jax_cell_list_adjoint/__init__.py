"""The padded cell list with a hand-written adjoint (custom_vjp)."""
