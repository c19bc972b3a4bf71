"""The problems that rows differentiate, one module each: functions, parameters, scenarios; NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping

from harness.contract.problem import Problem
from harness.problems.lj3d import Lj3d
from harness.problems.sph2d import Sph2d
from harness.problems.sph3d import Sph3d

PROBLEMS: Mapping[str, type[Problem]] = {each.name: each for each in (Sph2d, Sph3d, Lj3d)}
"""Every problem by its name."""
