import json
import os

from right import Right

import harness


class Fake(Right):
    """Runs nowhere, and says as the reason what its process was given."""

    @classmethod
    def unsupported(cls, case):
        return json.dumps({"environment": dict(os.environ), "folder": os.getcwd(), "harness": harness.__file__})
