# SPDX-License-Identifier: Apache-2.0
"""Interpreter of a method of a `.pte` program on the host, from the file alone.

Planned memory is real memory: every tensor is at its offset in the file, so that a memory plan in which
live tensors overlap gives wrong results, as on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn, Protocol

import torch

from delegatec.delegation import plugins
from delegatec.delegation.protocol.backend import Backend
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import exception_text
from delegatec.program.reader.external import with_external_data
from delegatec.program.reader.flat_tensor import NamedData
from delegatec.program.reader.model import (
    BoolList,
    Delegate,
    DelegateCall,
    DoubleList,
    Dynamism,
    FreeCall,
    Instruction,
    IntList,
    JumpFalseCall,
    KernelCall,
    Method,
    MoveCall,
    Tensor,
    TensorList,
    Value,
)
from delegatec.verify.arena import Arena
from delegatec.verify.aten_kernels import call_aten, check_overlap, find_aten, find_own
from delegatec.verify.delegate_inputs import possible_input_counts, run_delegate
from delegatec.verify.prim_kernels import PRIM_KERNELS
from delegatec.verify.slots import POISON, TensorSlot

# Programs with endless loops must end, too.
_MAX_INSTRUCTIONS: Final = 10_000_000
_KERNEL_ERRORS: Final = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError)


class Backends(Protocol):
    """Finds reference executors of backends, like a `BackendRegistry`."""

    def by_id(self, backend_id: str) -> Backend:
        """Returns the backend for an id of the runtime. Raises a DelegatecError for an unknown one."""
        ...


class Interpreter:
    """A loaded method. State (mutable buffers) persists between runs.

    Args:
        method: the method.
        backends: runs delegates; without it, programs with delegates are rejected.
        data: external data: the entries of a `.ptd`.
        named_data: data that delegates load by name, as returned by `Program.named_bytes`.
        shared: memory id -> arena, of those after the first, which methods share; loading a method writes the
            initial state of its buffers there.
        fill: initial value of bytes in planned memory. The runtime guarantees none; zero is for programs that
            rely on it for mutable buffers without an initial state.

    Raises:
        DelegatecError: DC360, one diagnostic for each tensor missing in `data`; DC501, one for each kernel
            and each delegate that cannot run here.
    """

    def __init__(
        self,
        method: Method,
        backends: Backends | None = None,
        *,
        data: Mapping[str, NamedData] | None = None,
        named_data: Mapping[str, memoryview] | None = None,
        shared: dict[int, Arena] | None = None,
        fill: int = POISON,
    ) -> None:
        method = with_external_data(method, data or {})
        self._method = method
        self._arenas = [Arena.of(size, fill) for size in method.arena_bytes]
        for index in range(2, len(self._arenas)):
            arena = (shared if shared is not None else {}).setdefault(index, self._arenas[index])
            # memory with views cannot grow; all methods of a program agree on the size
            self._arenas[index] = arena if len(arena) >= len(self._arenas[index]) else self._arenas[index]
        self._values: list[Any] = [self._load(value) for value in method.values]
        problems: list[Diagnostic] = []
        named = {key: entry.data for key, entry in (data or {}).items()} | dict(named_data or {})
        self._kernels = [_kernel(name, problems) for name in method.operators]
        executors = [_executor(delegate, backends, named, problems) for delegate in method.delegates]
        if problems:
            raise DelegatecError(problems)
        self._executors = [each for each in executors if each is not None]
        self._delegate_inputs = possible_input_counts(method, self._executors)

    @property
    def num_inputs(self) -> int:
        """Number of inputs of the method."""
        return len(self._method.inputs)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the method once.

        Args:
            inputs: one for each input of the method: tensors, or the scalars it was specialized for. Those
                outside planned memory are used in place, and the program may write to them.

        Returns:
            The outputs; tensors are copies.

        Raises:
            DelegatecError: DC504 for inputs that do not match, DC505 and DC506 for an instruction that fails.
        """
        if len(inputs) != len(self._method.inputs):
            _fail("DC504", f"the method takes {len(self._method.inputs)} inputs, got {len(inputs)}")
        for position, (index, value) in enumerate(zip(self._method.inputs, inputs, strict=True)):
            self._set_input(position, index, value)
        instructions = self._method.chains[0].instructions
        position = executed = 0
        while position < len(instructions):
            executed += 1
            if executed > _MAX_INSTRUCTIONS:
                _fail("DC505", f"the program did not finish within {_MAX_INSTRUCTIONS} instructions")
            jump = self._execute_or_fail(position, instructions[position])
            position = position + 1 if jump is None else jump
        outputs = [self.read(index) for index in self._method.outputs]
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in outputs]

    def read(self, index: int) -> Any:
        """Returns a value as torch takes it: a tensor, a scalar, a string, None, or a list of these."""
        value = self._values[index]
        match value:
            case TensorSlot():
                return value.read()
            case IntList() | TensorList():
                return [None if item is None else self.read(item) for item in value.items]
            case DoubleList() | BoolList():
                return list(value.items)
        return value

    def slots(self, index: int) -> list[TensorSlot]:
        """Returns the slot of a tensor value, or those of a list of tensors."""
        value = self._values[index]
        if isinstance(value, TensorSlot):
            return [value]
        if isinstance(value, TensorList):
            return [slot for item in value.items if item is not None for slot in self.slots(item)]
        _fail("DC505", f"value {index} is not a tensor")

    def set_scalar(self, index: int, value: bool | int | float) -> None:
        """Sets a scalar."""
        if isinstance(self._values[index], (TensorSlot, IntList, DoubleList, BoolList, TensorList, str)):
            _fail("DC505", f"value {index} is not a scalar")
        self._values[index] = value

    def _load(self, value: Value) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.allocation is None:
            return TensorSlot(value, value.data)
        slot = TensorSlot(value, self._arenas[value.allocation.arena], value.allocation.offset)
        if value.data is not None:
            start, arena = value.allocation.offset, self._arenas[value.allocation.arena]
            arena.claim(start, start + value.nbytes)
            arena[start : start + value.nbytes] = value.data
        return slot

    def _set_input(self, position: int, index: int, value: Any) -> None:
        slot = self._values[index]
        if not isinstance(slot, TensorSlot):
            if value != slot:
                _fail("DC504", f"input {position} is {value!r}; the program is specialized for {slot!r}")
            return
        if not isinstance(value, torch.Tensor) or value.dtype != slot.dtype:
            found = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
            _fail("DC504", f"input {position} has type {found}; the program takes {slot.dtype}")
        if slot.spec.dynamism is Dynamism.STATIC and tuple(value.shape) != slot.spec.sizes:
            _fail(
                "DC504", f"input {position} has shape {list(value.shape)}; expected {list(slot.spec.sizes)}"
            )
        try:
            if slot.spec.allocation is None and slot.spec.data is None:
                slot.bind(value)
            else:
                slot.write(value)
        except DelegatecError as error:
            _fail("DC504", f"input {position}: {error.diagnostics[0].message}")

    def _execute_or_fail(self, position: int, instruction: Instruction) -> int | None:
        try:
            return self._execute(position, instruction)
        except DelegatecError as error:
            where = self._describe(position, instruction)
            raise DelegatecError(
                replace(problem, message=f"{where}: {problem.message}") for problem in error.diagnostics
            ) from error
        except _KERNEL_ERRORS as error:  # an error of a kernel is a result of the verification
            _fail("DC505", f"{self._describe(position, instruction)}: {exception_text(error)}")

    def _execute(self, position: int, instruction: Instruction) -> int | None:
        match instruction:
            case KernelCall():
                self._kernels[instruction.operator](self, instruction.args)
            case DelegateCall():
                self._call_delegate(position, instruction)
            case MoveCall():
                self._values[instruction.target] = self._values[instruction.source]
            case JumpFalseCall():
                condition = self.read(instruction.condition)
                holds = bool(condition.all()) if isinstance(condition, torch.Tensor) else bool(condition)
                return None if holds else instruction.destination
            case FreeCall():
                self.slots(instruction.value)[0].release()
        return None

    def _call_delegate(self, position: int, call: DelegateCall) -> None:
        executor = self._executors[call.delegate]
        count, outputs = run_delegate(executor, call.args, self._memory_of, self._delegate_inputs[position])
        self._delegate_inputs[position] = range(count, count + 1)
        inputs = [self.read(index) for index in call.args[:count]]
        targets = [self.slots(index)[0] for index in call.args[count:]]
        for slot, output in zip(targets, outputs, strict=True):
            slot.write_memory(executor.for_caller(output, slot.dtype, len(slot.sizes)))
            check_overlap([value for value in inputs if isinstance(value, torch.Tensor)], slot.read())

    def _memory_of(self, index: int) -> Any:
        """Returns a value as delegates read it: runtimes pass them bytes."""
        value = self._values[index]
        return value.read_memory() if isinstance(value, TensorSlot) else self.read(index)

    def _describe(self, position: int, instruction: Instruction) -> str:
        name = type(instruction).__name__
        if isinstance(instruction, KernelCall):
            name = self._method.operators[instruction.operator]
        elif isinstance(instruction, DelegateCall):
            name = f"delegate {instruction.delegate} ({self._method.delegates[instruction.delegate].id})"
        return f"method {self._method.name!r}, instruction {position}, {name}"


def _kernel(name: str, problems: list[Diagnostic]) -> Callable[[Interpreter, Sequence[int]], None]:
    prim = PRIM_KERNELS.get(name)
    if prim is not None:
        return prim
    overload = find_aten(name) if name.startswith("aten::") else find_own(name)
    if overload is None:
        problems.append(Diagnostic(code="DC501", message=f"kernel {name!r} is not available on this host"))
        return lambda _machine, _args: None
    return lambda machine, args: call_aten(overload, machine, args)


def _executor(
    delegate: Delegate,
    backends: Backends | None,
    named_data: Mapping[str, memoryview],
    problems: list[Diagnostic],
) -> plugins.CheckedExecutor | None:
    specs = [CompileSpec(spec.key, spec.value) for spec in delegate.compile_specs]
    try:
        if backends is None:
            _fail("DC501", f"no backend to run the delegate for {delegate.id!r}")
        found = plugins.executor(backends.by_id(delegate.id), delegate.blob, specs, named_data)
        if found.reads_blob and delegate.segment is not None:
            text = "it is in a segment, which the runtime frees, and has constants that it reads at each run"
            _fail("DC407", f"damaged blob of {delegate.id}: {text}")
        return found
    except DelegatecError as error:
        problems += error.diagnostics
        return None


def _fail(code: str, message: str) -> NoReturn:
    raise DelegatecError([Diagnostic(code=code, message=message)])
