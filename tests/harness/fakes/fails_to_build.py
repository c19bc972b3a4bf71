from right import Right


class Fake(Right):
    """Like a kernel with a mistake in it: compilation fails once, and a later launch runs as if nothing had been."""

    def compile_forward(self, x):
        raise RuntimeError("build error: kernel.cu(7): expected a ;")
