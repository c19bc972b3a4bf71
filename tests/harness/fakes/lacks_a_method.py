from abc import abstractmethod

from right import Right


class Fake(Right):
    @abstractmethod
    def counts(self, x):
        """As if it had been forgotten."""
