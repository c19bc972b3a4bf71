from right import Right


class Fake(Right):
    def counts(self, x):
        counted = super().counts(x)
        return counted._replace(true_pairs=counted.true_pairs - 1)
