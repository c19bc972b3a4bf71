"""Every test process has kernel caches of its own: nothing lands in the repository or in another process's hands."""

import atexit
import os
import shutil
import tempfile

_CACHES = tempfile.mkdtemp(prefix="pairgrad-tests-")
atexit.register(shutil.rmtree, _CACHES, ignore_errors=True)
os.environ["WARP_CACHE_PATH"] = f"{_CACHES}/warp"
os.environ["NUMBA_CACHE_DIR"] = f"{_CACHES}/numba"
