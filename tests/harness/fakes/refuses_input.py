from right import Right

from harness.contract.problem import InvalidPositionsError


class Fake(Right):
    def loss(self, x):
        raise InvalidPositionsError("position row 7 is [nan, 0.0]")
