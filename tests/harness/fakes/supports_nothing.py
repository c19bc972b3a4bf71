from right import Right

from harness.contract.protocol import Support


class Fake(Right):
    @classmethod
    def supports(cls, case):
        return Support("runs on Sundays only")
