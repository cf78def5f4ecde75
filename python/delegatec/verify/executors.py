# SPDX-License-Identifier: Apache-2.0
"""Executors of a program on this host: the compiler's interpreter, and runtimes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import exception_text
from delegatec.program.reader.flat_tensor import NamedData
from delegatec.program.reader.model import Program, Tensor
from delegatec.verify.arena import Arena
from delegatec.verify.interpreter import Backends, Interpreter
from delegatec.verify.runtime import Runtime

REFERENCE: Final = "reference"

# Arenas of a method that shares none: entry 0 is reserved.
_OWN_ARENAS: Final = 2


class Executor(Protocol):
    """A loaded program. Its state persists between calls, and is shared by its methods."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        ...

    def run(self, method: str, inputs: Sequence[Any], /) -> list[Any]:
        """Runs a method once.

        Args:
            method: its name.
            inputs: one for each input; the program may write to tensors.

        Raises:
            DelegatecError: DC504 to DC506, for inputs that do not match, and failures at run time.
        """
        ...


class ReferenceExecutor:
    """The interpreter, with the backends' reference executors for delegates.

    Args:
        program: the program.
        methods: the methods to load, in this order.
        backends: run the delegates.
        data: its external weights.

    Raises:
        DelegatecError: as `Interpreter`.
    """

    name = REFERENCE

    def __init__(
        self,
        program: Program,
        methods: Collection[str],
        backends: Backends,
        data: Mapping[str, NamedData],
    ) -> None:
        shared: dict[int, Arena] = {}
        named = program.named_bytes()
        self._methods = {
            name: Interpreter(program.method(name), backends, data=data, named_data=named, shared=shared)
            for name in methods
        }

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        """See `Executor.run`."""
        return self._methods[method].run(inputs)


class RuntimeExecutor:
    """A program in a runtime.

    Args:
        runtime: the runtime.
        program: the program.
        pte: its file.
        ptd: its external weights, if it has any.

    Raises:
        DelegatecError: DC501, one diagnostic for each backend that the runtime lacks, or one if it rejects
            the program.
    """

    def __init__(self, runtime: Runtime, program: Program, pte: Path | str, ptd: Path | str | None) -> None:
        self.name = runtime.name
        self._program = program
        missing = missing_backends(runtime, program)
        present = sorted(runtime.backends) if missing else []
        problems = [
            Diagnostic(
                "DC501",
                f"{self.name} has no backend {backend}, which method {method!r} calls",
                expected=f"one of its backends: {', '.join(present)}" if present else "no delegates",
                help="test the program without this runtime, or with one that contains the backend",
            )
            for backend, method in missing.items()
        ]
        if problems:
            raise DelegatecError(problems)
        shares = any(len(method.arena_bytes) > _OWN_ARENAS for method in program.methods)
        try:
            self._loaded = runtime.load(str(pte), None if ptd is None else str(ptd), shares)
        except Exception as error:  # the runtime's, of any type
            raise runtime_failure("DC501", f"{self.name} cannot load the program", error) from error

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        """See `Executor.run`."""
        specs = self._program.method(method)
        given = [
            _ordered(value, specs.values[index]) for index, value in zip(specs.inputs, inputs, strict=True)
        ]
        try:
            outputs = [*self._loaded.run(method, given)]
        except Exception as error:
            raise runtime_failure("DC505", f"{self.name} fails in method {method!r}", error) from error
        if len(outputs) != len(specs.outputs):
            message = f"{self.name} returns {len(outputs)} outputs of method {method!r}"
            expected = f"{len(specs.outputs)}, as in the file"
            raise DelegatecError([Diagnostic("DC505", message, expected=expected)])
        for value, own in zip(inputs, given, strict=True):
            if own is not value:
                value.copy_(own)
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in outputs]


def missing_backends(runtime: Runtime, program: Program) -> dict[str, str]:
    """Returns the backends that a program calls and a runtime lacks: id -> the last method that calls it."""
    called = {each.id: method.name for method in program.methods for each in method.delegates}
    present = {*runtime.backends} if called else set()
    return {backend: method for backend, method in called.items() if backend not in present}


def _ordered(value: Any, spec: object) -> Any:
    """Returns a tensor in the order of dimensions that the file declares: runtimes do not check it."""
    if not isinstance(value, torch.Tensor) or not isinstance(spec, Tensor):
        return value
    if len(spec.dim_order) != value.dim():
        return value  # the runtime reports it
    permuted = value.permute(spec.dim_order)
    if permuted.is_contiguous():
        return value
    inverse = sorted(range(value.dim()), key=spec.dim_order.__getitem__)
    return permuted.contiguous().permute(inverse)


def runtime_failure(code: str, what: str, error: Exception) -> DelegatecError:
    """Returns the error for an exception of a runtime.

    Args:
        code: DC501 or DC505.
        what: the failure, such as "executorch 1.4.1 cannot load the program".
        error: the exception.
    """
    help = "its log, on stderr, names the instruction" if code == "DC505" else ""
    return DelegatecError([Diagnostic(code, f"{what}: {exception_text(error)}", help=help)])
