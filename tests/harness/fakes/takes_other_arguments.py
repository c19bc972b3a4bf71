from right import Right


class Fake(Right):
    def __init__(self, problem):
        self.problem = problem
