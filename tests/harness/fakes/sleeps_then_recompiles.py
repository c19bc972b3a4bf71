import time

from right import Right


class Fake(Right):
    """Compiles for 1.0 s; then every call takes a millisecond, but for the fourth of the samples, which takes 0.5 s."""

    before_samples = 5  # check, its two finite differences, the permuted check, warm-up
    calls = 0

    def compile_forward(self, x):
        time.sleep(1.0)

    def loss(self, x):
        self.calls += 1
        time.sleep(0.5 if self.calls == self.before_samples + 4 else 0.001)
        return super().loss(x)
