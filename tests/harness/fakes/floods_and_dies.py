import os

import floods_output


class Fake(floods_output.Fake):
    def loss(self, x):
        os.write(2, b"\nthe last words\n")
        os.abort()
