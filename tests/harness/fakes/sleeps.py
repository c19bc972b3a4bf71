import time

from right import Right


class Fake(Right):
    """Takes two seconds to be built."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        time.sleep(2.0)
