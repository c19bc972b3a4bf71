from right import Right

from harness.contract.protocol import UnavailableError


class Fake(Right):
    def __init__(self, *arguments):
        raise UnavailableError("no CUDA device")
