import signal
import time

from right import Right


class Fake(Right):
    def loss(self, x):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        print("about to sleep", flush=True)
        time.sleep(600)
