from right import Right


class Fake(Right):
    def true_pairs(self, x):
        return super().true_pairs(x) - 1
