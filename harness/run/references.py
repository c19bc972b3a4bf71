"""The oracle's references of a run, each evaluated once."""

from __future__ import annotations

from pathlib import Path

from harness.check import oracle
from harness.check.reference import Reference, load, save
from harness.contract.protocol import Case
from harness.problems.sph2d import SCENARIOS
from harness.run.child import ask
from harness.run.machine import available_cores
from harness.run.process import Ended

ORACLE = "harness.check.oracle"
"""Module that evaluates the references of a large input, run in a process of its own."""


class OracleError(RuntimeError):
    """The oracle came to no result.

    Attributes:
        timed_out: whether it ran out of time.
    """

    def __init__(self, words: str, *, timed_out: bool = False) -> None:
        super().__init__(words)
        self.timed_out = timed_out


class References:
    """Evaluates references as they are asked for and keeps them in files.

    Args:
        folder: for the files.
        memory_limit_bytes: of the process that evaluates a large input.
    """

    def __init__(self, folder: Path, memory_limit_bytes: int) -> None:
        self._folder = folder
        self._memory_limit_bytes = memory_limit_bytes
        self._found: dict[str, Path | OracleError] = {}

    def file(self, case: Case, limit_s: float) -> Path:
        """File of a case's references.

        Args:
            case: whose scenario, n and dtype they are for.
            limit_s: wall seconds the oracle may take.

        Raises:
            OracleError: there are none, now or the first time.
        """
        key = f"{case.scenario}-{case.n}-{case.dtype}"
        if key not in self._found:
            path = self._folder / f"{key}.npz"
            try:
                self._evaluate(case, path, limit_s)
                self._found[key] = path
            except OracleError as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, OracleError):
            raise found
        return found

    def of(self, case: Case) -> list[Reference]:
        """References of a case whose file has been made."""
        found = self._found[f"{case.scenario}-{case.n}-{case.dtype}"]
        assert isinstance(found, Path)
        return load(found)

    def _evaluate(self, case: Case, path: Path, limit_s: float) -> None:
        if not SCENARIOS[case.scenario].sized or case.n <= oracle.ALL_PAIRS_LIMIT:
            try:
                save(path, list(oracle.references(case.scenario, case.n, case.dtype)))
            except OSError as error:
                raise OracleError(f"the oracle's references cannot be kept: {error}") from error
            return
        answer = ask(
            ORACLE,
            *(case.scenario, str(case.n), case.dtype, str(path)),
            of=int,
            threads=len(available_cores()),
            limit_s=limit_s,
            memory_limit_bytes=self._memory_limit_bytes,
        )
        if isinstance(answer, Ended):
            raise OracleError(f"the oracle did not answer: {answer.words}", timed_out=answer.killed == "timeout")
