import jax
import torch  # noqa: F401
from right import Right

jax.config.update("jax_enable_x64", True)


class Fake(Right):
    pass
