from harness.protocol import Support
from right import Right


class Fake(Right):
    @classmethod
    def supports(cls, case):
        return Support("runs on Sundays only")
