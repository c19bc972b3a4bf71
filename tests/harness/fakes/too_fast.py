from right import Right


class Fake(Right):
    """Claims a trillion pair slots, and is done in no time."""

    def counts(self, x):
        return super().counts(x)._replace(pair_slots=10**12)

    def expected_pair_slots(self, counts):
        return 10**12
