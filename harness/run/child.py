"""The environment of a process started from here, and one that answers a question and ends."""

from __future__ import annotations

import os
from pathlib import Path

from harness.contract.protocol import Case

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def child_environment(case: Case, threads: int, private: Path, caches: Path) -> dict[str, str]:
    """The whole environment of a worker, complete before its interpreter starts.

    Args:
        case: what it will run.
        threads: cores it will run on.
        private: an empty folder of its own for temporary files.
        caches: for kernel caches; no other process uses it at the same time.
    """
    platforms = "cpu" if case.device == "cpu" else "cuda,cpu"
    environment = {
        **os.environ,
        **dict.fromkeys(_THREAD_VARIABLES, str(threads)),
        "JAX_PLATFORMS": platforms,
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TMPDIR": str(private),
        "WARP_CACHE_PATH": str(caches / "warp"),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if case.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment
