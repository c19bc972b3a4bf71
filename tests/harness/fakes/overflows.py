from harness.protocol import CapacityOverflowError
from right import Right


class Fake(Right):
    def loss(self, x):
        raise CapacityOverflowError("2,700,000,000 slots need 43 GB; 8 GB are free")
