import wrong_loss


class Fake(wrong_loss.Fake):
    """A loss that is off, and pairs counted once where ordered pairs are asked for: none is dropped."""

    def true_pairs(self, x):
        return super().true_pairs(x) // 2
