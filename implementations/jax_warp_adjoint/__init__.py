"""The kernels of warp_adjoint called inside jitted JAX functions, with a custom_vjp."""
