import times_out_from_200

from harness.contract.protocol import Support


class Fake(times_out_from_200.Fake):
    @classmethod
    def supports(cls, case):
        return Support(expected=("timeout",) if case.n >= 200 else ())
