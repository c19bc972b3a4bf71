import time

from right import Right

time.sleep(600)


class Fake(Right):
    pass
