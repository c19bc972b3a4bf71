import contextlib
import os

from right import Right


class Fake(Right):
    def loss(self, x):
        while True:
            for descriptor in range(3, 40):
                with contextlib.suppress(OSError):
                    os.write(descriptor, b"\xff" * (1 << 20))
