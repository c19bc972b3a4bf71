from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Description, Device, Dtype
from harness.problems.sph2d import Sph2d
from implementations._enzyme.call import compiler_errors
from implementations._enzyme.row import EnzymeImplementation
from implementations._jax.row import INVALID_POSITIONS, FunctionName


class EnzymeLoopsThreads(EnzymeImplementation):
    """enzyme_loops, called once per thread and range of slots; their losses or gradients are added.

    The ranges are separate calls from Python's threads: XLA runs the calls inside one jitted function one by one.

    Attributes:
        ranges: first and last slot of each thread, (2,) int32.
    """

    description: ClassVar[Description] = Description(
        title="Enzyme loops, threads (C++ via enzyme-ad)",
        framework="Enzyme",
        neighbours="counting sort into cells, data-dependent runs of slots; every thread sorts",
        adjoint="Enzyme, on the whole pipeline of each range of slots; the ranges' gradients are added",
        pair_slots="ordered pairs over the (up to) 3x3 cells, self included",
        multithreaded=True,
        fast_math="reassociated sums; Enzyme's own adjoint operations",
        packages=("enzyme-ad", "jax", "jaxlib", "numpy"),
        forward_sources=(
            "enzyme_loops_threads/forward.cpp",
            "_enzyme/cells.h",
            "_enzyme/density.h",
            "_enzyme/pipeline.h",
        ),
    )
    forward_source = "enzyme_loops_threads/forward.cpp"
    gradient_source = "enzyme_loops_threads/gradient.cpp"

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        super().__init__(problem, positions, device, dtype)
        threads = len(os.sched_getaffinity(0))
        bounds = np.linspace(0, self.n, threads + 1).astype(np.int32)
        self.ranges = [jax.device_put(bounds[i : i + 2], self.device) for i in range(threads)]
        self._executor = ThreadPoolExecutor(threads)
        self._sums: dict[FunctionName, jax.stages.Compiled] = {}

    @override
    def _call(self, name: FunctionName, x: jax.Array) -> jax.Array:
        if self.n == 0:
            return super()._call(name, x)
        self._require_match(x)
        values, states = zip(*self._executor.map(partial(self._executable(name), x), self.ranges), strict=True)
        if int(states[0]) == INVALID_POSITIONS:
            self.problem.require_valid(self.to_numpy(x))
        return self._sums[name](*values)

    @override
    def _executable(self, name: FunctionName) -> jax.stages.Compiled:
        if self.n == 0:
            return super()._executable(name)
        if name not in self._executables:
            sharding = jax.sharding.SingleDeviceSharding(self.device)
            x = jax.ShapeDtypeStruct((self.n, 2), self.dtype, sharding=sharding)
            value = x if name == "grad" else jax.ShapeDtypeStruct((), self.dtype, sharding=sharding)
            with compiler_errors():
                self._executables[name] = jax.jit(self.traceable(name)).lower(x, self.ranges[0]).compile()
            add = jax.jit(lambda *values: reduce(jnp.add, values))
            self._sums[name] = add.lower(*[value] * len(self.ranges)).compile()
        return self._executables[name]
