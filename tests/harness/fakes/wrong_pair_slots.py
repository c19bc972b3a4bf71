from right import Right


class Fake(Right):
    def pair_slots(self, x):
        return super().pair_slots(x) + 1
