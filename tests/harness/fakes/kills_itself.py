import os
import signal

from right import Right


class Fake(Right):
    def loss(self, x):
        os.kill(os.getpid(), signal.SIGKILL)
