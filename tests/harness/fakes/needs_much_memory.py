import time

from right import Right


class Fake(Right):
    """Takes 400 MiB while it is built: more than a third of a gigabyte, less than all of it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        kept = b"x" * (400 << 20)
        time.sleep(0.5 if kept else 0.0)
