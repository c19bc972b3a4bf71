"""Which extra of the package brings a module that is missing, so that an error can say what to install."""

from __future__ import annotations

EXTRAS = {
    "enzyme_ad": "enzyme",
    "itables": "page",
    "jax": "jax",
    "jax_md": "jax",
    "numba": "numba",
    "nvalchemiops": "peer",
    "plotly": "page",
    "pyarrow": "parquet",
    "torch": "torch",
    "warp": "warp",
}
"""Modules that may be missing, and the extra of pyproject.toml that brings each."""


def missing_module(error: ModuleNotFoundError) -> str:
    """The error's words, and the command that installs the module where an extra has it."""
    extra = EXTRAS.get((error.name or "").split(".")[0])
    return f"{error}: pip install 'pairgrad[{extra}]'" if extra else str(error)
