from garbles_channel import Fake as GarblesChannel
from right import Right


class Fake(GarblesChannel):
    def loss(self, x):
        return super().loss(x) if len(x) == 20 else Right.loss(self, x)
