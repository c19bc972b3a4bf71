"""No row: answers with the environment it was given."""

import os

from harness.run.child import answer

if __name__ == "__main__":
    answer(dict(os.environ))
