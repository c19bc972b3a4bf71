"""Differentiable segment operations: one family of segment products for JAX and Torch over Warp kernels.

Import the binding of your framework: `implementations.segment_ops.jax_ops` or `implementations.segment_ops.torch_ops`.
Both offer the same six functions with the same argument order; neither imports the other's framework.

* `family` -- the formulas, the one rule that differentiates them, and the checks of arguments.
* `kernels` -- the Warp kernel of a programme.
"""
