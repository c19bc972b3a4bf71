import ctypes

from right import Right


class Fake(Right):
    def grad(self, x):
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock: no Python signal handler or thread runs
