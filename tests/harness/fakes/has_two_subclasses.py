from right import Right


class First(Right):
    pass


class Second(First):
    pass
