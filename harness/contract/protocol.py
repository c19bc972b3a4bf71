"""What an implementation is.

An implementation lives in `implementations/<name>/implementation.py` (or in any one module given by path) as a subclass
of `Implementation`. It knows nothing of timing; the worker builds it, checks it and times it. Framework imports stand
at the top of its module: only a worker process imports it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from harness.contract.problem import FloatArray, Problem

Device = Literal["cpu", "cuda"]
Dtype = Literal["float64", "float32"]
DEVICES: tuple[Device, ...] = get_args(Device)
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Array = Any
"""An array of the implementation's own framework, on its device."""


class UnavailableError(RuntimeError):
    """A package, platform or device this implementation needs is absent here; the message says which."""


class CapacityOverflowError(RuntimeError):
    """A neighbour list or cell list cannot hold its entries: names the entries, the bytes and the limit."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader of the tables is told about an implementation.

    Attributes:
        title: the name in tables, for instance "JAX padded neighbour list (jax-md)".
        framework: who runs the computation, for instance "JAX"; a short name to group tables by.
        neighbours: how neighbours are found.
        adjoint: how the gradient is obtained.
        pair_slots: the formula of `Implementation.expected_pair_slots` in words.
        devices, dtypes: what it can run on.
        multithreaded: whether it can use more than one core on the CPU.
        fast_math: flags that may change values ("none" if there are none).
        options: keyword options of the constructor with their defaults.
        packages: distributions whose versions decide its speed.
        derived_from: the one row whose modules it imports; that one is derived from none.
        forward_sources: files, relative to `implementations/`, that hold the forward pass; their code lines are
            counted. Without any: the row's own forward.py.
        adjoint_sources: the same for a derivative written by hand. Without any: the row's own adjoint.py; a row that
            has none leaves the derivative to its framework, and nothing is counted.
    """

    title: str
    framework: str
    neighbours: str
    adjoint: str
    pair_slots: str
    devices: tuple[Device, ...] = ("cpu",)
    dtypes: tuple[Dtype, ...] = ("float64", "float32")
    multithreaded: bool = False
    fast_math: str = "none"
    options: dict[str, float] = {}
    packages: tuple[str, ...] = ("numpy",)
    derived_from: str | None = None
    forward_sources: tuple[str, ...] = ()
    adjoint_sources: tuple[str, ...] = ()


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to check and time: an implementation on an input, a device, a dtype and a number of threads.

    `options` are of its constructor; `variables` are set in its process, whose environment otherwise depends on no
    switch of the caller's.
    """

    implementation: str
    scenario: str
    n: int
    device: Device = "cpu"
    dtype: Dtype = "float64"
    threads: int = 1
    options: dict[str, float] = {}
    variables: dict[str, str] = {}


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Independent counts of one input, from the oracle, for `Implementation.expected_pair_slots`.

    Attributes:
        n: particles.
        true_pairs: ordered pairs i != j with r < 2h.
        cells_per_side: cells of width >= 2h along one side.
        max_occupancy: particles in the fullest of those cells.
        stencil_pairs: ordered pairs, self included, over the (up to) 3x3 cells around each particle.
    """

    n: int
    true_pairs: int
    cells_per_side: int
    max_occupancy: int
    stencil_pairs: int


class Counted(NamedTuple):
    """What a row counted on one input, through the cells or the list that its `loss` uses.

    Attributes:
        true_pairs: ordered pairs i != j with r < 2h.
        pair_slots: slots W is evaluated on, masked or not, in one forward pass.
        search_slots: candidate distances computed only to find those slots; 0 where the slots are walked directly.
    """

    true_pairs: int
    pair_slots: int
    search_slots: int = 0


class Implementation(ABC):
    """One row of the tables: `loss(x)` and `grad(x)` of the SPH density loss, each rebuilding its cells or list.

    Built for one problem, example positions (from which it may size capacities), device and dtype. Positions handed to
    `loss` and `grad` may be others of the same shape: anywhere in space (periodic), clustered, coincident. Rules:

    - minimum image for any box length; every pair counts once; a stencil visits each distinct cell once;
    - a non-finite position raises `InvalidPositionsError` naming the row (`Problem.require_valid` does);
    - a full neighbour or cell list is never a short sum: reallocate and count it, or raise `CapacityOverflowError`
      before allocating;
    - N = 0 gives loss 0 and a gradient of shape (0, 2); coincident particles have no gradient between them;
    - a returned array is never overwritten by a later call;
    - `loss` and `grad` read at most one scalar status back from the device per call.

    The defaults below suit an implementation whose arrays are NumPy's or have `block_until_ready`.

    Attributes:
        capacity: slots allocated per cell or in the list; None where there is no such thing.
        reallocations: times a capacity was exceeded and grown since the build.
        recompilations: compilations after `compile_forward` and `compile_gradient` returned.
    """

    description: ClassVar[Description]
    capacity: int | None = None
    reallocations: int = 0
    recompilations: int = 0

    @abstractmethod
    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """Prepare for arrays like `positions`, (N, 2); options of the description come as further keywords.

        Raises:
            UnavailableError: the device or a package is absent.
            InvalidPositionsError: see `Problem.require_valid`.
            CapacityOverflowError: a capacity would not fit; raised before it is allocated.
        """

    @abstractmethod
    def loss(self, x: Array) -> Array:
        """Loss, a scalar of the dtype on the device.

        Args:
            x: (N, 2) positions made by `to_device`.

        Raises:
            InvalidPositionsError: a position is not finite.
            CapacityOverflowError: x is too crowded to hold.
            ValueError: x has another shape or dtype, or lies on another device than built for (`mismatch`).
        """

    @abstractmethod
    def grad(self, x: Array) -> Array:
        """dL/dx, (N, 2) in the order of x, of the dtype on the device. Raises as `loss`."""

    @abstractmethod
    def counts(self, x: Array) -> Counted:
        """Count pairs and slots through the cells or the list that `loss` uses. Not timed. Raises as `loss`."""

    @abstractmethod
    def expected_pair_slots(self, counts: Counts) -> int:
        """What `pair_slots` must be for the example positions, from the oracle's counts alone: the stated formula."""

    @classmethod
    def unsupported(cls, case: Case) -> str | None:
        """Why this case cannot run, None if it can; override for limits of size, and start from super's answer."""
        d = cls.description
        if case.device not in d.devices:
            return f"runs on {', '.join(d.devices)} only"
        if case.dtype not in d.dtypes:
            return f"computes in {', '.join(d.dtypes)} only"
        unknown = sorted(set(case.options) - set(d.options))
        return f"has no option {', '.join(unknown)}" if unknown else None

    def compile_forward(self, x: Array) -> None:
        """Everything `loss(x)` needs compiled, ahead of time where the framework can. Default: call it once."""
        self.wait(self.loss(x))

    def compile_gradient(self, x: Array) -> None:
        """The same for `grad(x)`; called after `compile_forward`."""
        self.wait(self.grad(x))

    def to_device(self, positions: FloatArray) -> Array:
        """(N, 2) NumPy positions as an array of the framework, of the dtype, on the device."""
        return positions

    def to_numpy(self, array: Array) -> FloatArray:
        """A NumPy copy: later calls never change it."""
        return np.array(array)

    def wait(self, *outputs: Array) -> None:
        """Return when every array in these (possibly nested) outputs has been computed."""
        for leaf in leaves(outputs):
            if hasattr(leaf, "block_until_ready"):
                leaf.block_until_ready()

    def device_of(self, array: Array) -> Device:
        """The device an output lies on, read from the array itself."""
        return "cpu"

    def peak_device_bytes(self) -> int | None:
        """Peak memory the framework allocated on an accelerator; None on CPU or where it does not tell."""
        return None


def mismatch(given: str, built_for: str) -> ValueError:
    """What `loss`, `grad` and `counts` raise for an array of another type, shape, dtype or device than built for."""
    return ValueError(f"positions are {given}; this row was built for {built_for}")


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of nested tuples, lists and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, tuple | list):
        for branch in tree:
            yield from leaves(branch)
    else:
        yield tree
