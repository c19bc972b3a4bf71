from right import Right


class Fake(Right):
    def __init__(self, *arguments):
        raise RuntimeError("the build failed")
