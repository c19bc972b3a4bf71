import os
import sys

from right import Right


class Fake(Right):
    def grad(self, x):
        print("corrupted size vs. prev_size", file=sys.stderr, flush=True)
        os.abort()
