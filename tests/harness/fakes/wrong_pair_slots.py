from right import Right


class Fake(Right):
    def counts(self, x):
        counted = super().counts(x)
        return counted._replace(pair_slots=counted.pair_slots + 1)
