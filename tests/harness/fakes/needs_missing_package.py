import a_framework_that_is_not_installed  # noqa: F401
from right import Right


class Fake(Right):
    pass
