from right import Right

from harness.contract.protocol import CapacityOverflowError


class Fake(Right):
    def loss(self, x):
        raise CapacityOverflowError("2,700,000,000 slots need 43 GB; 8 GB are free")
