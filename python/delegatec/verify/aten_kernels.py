# SPDX-License-Identifier: Apache-2.0
"""Kernels of the "aten" namespace, and those of apps: torch's overloads of the same names.

Results are computed in new memory and then copied to the program's. This way shapes and dtypes are checked
first, and outputs that overlap inputs are found by comparing addresses.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

import torch
from torch._ops import OpOverload

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.app_kernels import functional_of, named_kernels
from delegatec.edge.out_variants import out_arguments
from delegatec.program.reader.types import SCALAR_KINDS
from delegatec.verify import empty_kernels
from delegatec.verify.norm_kernels import NORMS, compute_norm
from delegatec.verify.slots import TensorSlot, byte_range


class Machine(Protocol):
    """The interface of a running method for kernels."""

    def read(self, index: int) -> Any:
        """Returns a value as torch takes it: a tensor, a scalar, a string, None, or a list of these."""

    def slots(self, index: int) -> list[TensorSlot]:
        """Returns the slot of a tensor value, or those of a list of tensors."""

    def set_scalar(self, index: int, value: bool | int | float) -> None:
        """Sets a scalar."""


# Values of c10::MemoryFormat.
_MEMORY_FORMATS: Final[dict[int, torch.memory_format]] = {
    0: torch.contiguous_format,
    1: torch.preserve_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}


@functools.cache
def find_aten(name: str) -> OpOverload | None:
    """Returns torch's overload for a kernel.

    Args:
        name: name of the kernel, such as "aten::add.out" or "aten::copy_".
    """
    base, _, overload = name.removeprefix("aten::").partition(".")
    found = getattr(getattr(torch.ops.aten, base, None), overload or "default", None)
    return found if isinstance(found, OpOverload) else None


def find_own(name: str) -> OpOverload | None:
    """Returns the out variant that a kernel of the app is for; None unless it is in `app_kernels`."""
    if name not in named_kernels():
        return None
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), base), overload)
    return found


def call_aten(operator: OpOverload, machine: Machine, args: Sequence[int]) -> None:
    """Runs a kernel call.

    Args:
        operator: the overload.
        machine: the running method.
        args: indices of values: the arguments of the operator's schema, then its results.

    Raises:
        DelegatecError: DC505 for wrong arguments, DC506 for an output that overlaps an input.
    """
    schema = operator._schema
    if len(args) < len(schema.arguments):
        _fail("DC505", f"{operator} takes {len(schema.arguments)} arguments, not {len(args)}")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    outputs: list[TensorSlot] = []
    for argument, index in zip(schema.arguments, args, strict=False):
        if argument.is_out:
            slots = machine.slots(index)
            fresh = [torch.empty(0, dtype=slot.dtype) for slot in slots]
            named[argument.name] = fresh if isinstance(argument.type, torch.ListType) else fresh[0]
            outputs += slots
            continue
        value = _convert(machine.read(index), argument.real_type)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    arguments = _by_name(operator, positional)
    failure = empty_kernels.failure(operator, arguments)
    if failure is not None:
        _fail("DC505", failure)
    norm = compute_norm(arguments) if operator in NORMS else None
    if norm is not None:
        named.update(zip((a.name for a in schema.arguments if a.is_out), norm, strict=True))
    result = None
    if operator.namespace != "aten":
        named.update(_own_results(operator, positional, named))
    elif norm is None:
        result = operator(*positional, **named)
    if outputs:
        written = [tensor for a in schema.arguments if a.is_out for tensor in _tensors(named[a.name])]
        shape = empty_kernels.shape_of_none(operator, arguments)
        if shape is not None:
            written = [written[0].reshape(shape)]
        inputs = list(_tensors(positional))
        for slot, tensor in zip(outputs, written, strict=True):
            slot.write(tensor)
            check_overlap(inputs, slot.read())
    elif isinstance(result, (bool, int, float)):
        machine.set_scalar(args[len(schema.arguments)], result)


def _own_results(
    operator: OpOverload, positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Returns the results of an app's operator by the names of its out variant's outputs."""
    functional, outs = functional_of(operator), out_arguments(operator)
    assert functional is not None, "app_kernels checks it"
    result = functional(*positional, **{name: value for name, value in named.items() if name not in outs})
    return dict(zip(outs, result if isinstance(result, (tuple, list)) else [result], strict=True))


def _by_name(operator: OpOverload, positional: Sequence[Any]) -> dict[str, Any]:
    names = [argument.name for argument in operator._schema.arguments]
    return dict(zip(names, positional, strict=False))


def check_overlap(inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
    """Rejects an output that overlaps an input: the kernel would read elements that it has written.

    Raises:
        DelegatecError: DC506.
    """
    start, end = byte_range(output)
    for tensor in inputs:
        other_start, other_end = byte_range(tensor)
        if start < other_end and other_start < end:
            _fail("DC506", "an output overlaps an input in memory")


def _convert(value: Any, real_type: Any) -> Any:
    kind = str(real_type).removeprefix("Optional[").removesuffix("]")
    if value is None:
        return None
    if kind == "ScalarType":
        return getattr(torch, SCALAR_KINDS[value].name)
    if kind == "MemoryFormat":
        return _MEMORY_FORMATS[value]
    if kind == "Layout":
        return torch.strided
    return value


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _fail(code: str, message: str) -> NoReturn:
    raise DelegatecError([Diagnostic(code=code, message=message)])
