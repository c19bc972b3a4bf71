from right import Right


class Fake(Right):
    description = None
