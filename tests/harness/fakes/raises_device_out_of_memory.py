from on_another_device import Fake as OnBoth


class Fake(OnBoth):
    def loss(self, x):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1099511627776 bytes.")
