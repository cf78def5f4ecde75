# SPDX-License-Identifier: Apache-2.0
"""What a .pte file holds, as plain immutable values. Made by `delegatec.program.reader`.

Indices are those of the file, checked: whoever holds a `Program` may follow them without looking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from delegatec.program.reader.types import ScalarKind


class Dynamism(Enum):
    """How far the shape of a tensor is known. Values are those of the file."""

    STATIC = 0
    BOUND = 1
    UNBOUND = 2


@dataclass(frozen=True, slots=True)
class Allocation:
    """A place in planned memory.

    Attributes:
        arena: memory id, an index >= 1 into `Method.arena_bytes`.
        offset: bytes from the start of that arena.
    """

    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor value.

    Attributes:
        kind: its dtype.
        sizes: its shape; upper bounds where `dynamism` is BOUND.
        dim_order: dimensions from the outermost in memory to the innermost.
        dynamism: whether the shape may change at run time.
        allocation: where planned memory holds it; None for a constant and for what the caller points at.
        data_index: entry of the constants (without allocation) or of the mutable data (with); 0 for no data.
        data: its bytes in the file: a constant, or the initial state of a mutable buffer; None without.
        external_key: name in a .ptd file, for data that is not in this one.
        name: fully qualified name, where the file gives it.
    """

    kind: ScalarKind
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamism: Dynamism
    allocation: Allocation | None
    data_index: int
    data: memoryview | None = field(repr=False)
    external_key: str | None
    name: str

    @property
    def nbytes(self) -> int:
        """Bytes of its elements (of its largest shape)."""
        return math.prod(self.sizes) * self.kind.itemsize

    @property
    def is_constant(self) -> bool:
        """Whether its bytes never change."""
        return self.allocation is None and (self.data is not None or self.external_key is not None)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, for the sizes that the file gives."""
        return strides_of(self.sizes, self.dim_order)


def strides_of(sizes: tuple[int, ...], dim_order: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor whose dimensions lie in memory in a given order."""
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(dim_order):
        strides[dim] = step
        step *= max(1, sizes[dim])
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class IntList:
    """A list of ints: indices of the values that hold them, so that items may change at run time."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DoubleList:
    """A list of floats."""

    items: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoolList:
    """A list of bools."""

    items: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors: indices of values; None where an optional tensor is missing."""

    items: tuple[int | None, ...]


Value = None | bool | int | float | str | Tensor | IntList | DoubleList | BoolList | TensorList


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Calls a kernel.

    Attributes:
        operator: index into `Method.operators`.
        args: indices of values: every argument of the schema, then what it returns.
    """

    operator: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Runs a delegate.

    Attributes:
        delegate: index into `Method.delegates`.
        args: indices of values: its inputs, then its outputs.
    """

    delegate: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveCall:
    """Makes value `target` an alias of value `source`."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class JumpFalseCall:
    """Goes to instruction `destination` unless value `condition` (a bool or a bool tensor) is all true."""

    condition: int
    destination: int


@dataclass(frozen=True, slots=True)
class FreeCall:
    """Frees the memory of tensor `value`, whose shape had no bound."""

    value: int


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


@dataclass(frozen=True, slots=True)
class Chain:
    """Instructions in the order in which they run."""

    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class CompileSpec:
    """A setting handed to a backend; equal in shape to `delegatec.delegation.CompileSpec`."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delegate:
    """A compiled part of a method.

    Attributes:
        id: name under which the runtime looks its backend up.
        blob: what the backend is given, a view of the file.
        segment: the segment that holds the blob; None for one stored inside the FlatBuffer.
        compile_specs: settings handed to the backend.
    """

    id: str
    blob: memoryview = field(repr=False)
    segment: int | None
    compile_specs: tuple[CompileSpec, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the program: an execution plan.

    Attributes:
        name: such as "forward".
        inputs: indices of the values that a caller sets.
        outputs: indices of the values that a caller gets.
        values: all values.
        operators: full names, such as "aten::add.out".
        chains: the instructions; the runtime runs chain 0.
        delegates: those that its instructions call.
        arena_bytes: size of each arena of planned memory; entry 0 is reserved.
        in_spec: the tree of its inputs, as its compiler wrote it; ours and ExecuTorch's write the JSON of
            `torch.utils._pytree.treespec_dumps`.
        out_spec: likewise of its outputs.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: tuple[Value, ...] = field(repr=False)
    operators: tuple[str, ...]
    chains: tuple[Chain, ...] = field(repr=False)
    delegates: tuple[Delegate, ...]
    arena_bytes: tuple[int, ...]
    in_spec: str = ""
    out_spec: str = ""

    def tensor(self, index: int) -> Tensor:
        """The tensor value at an index that is known to name one."""
        value = self.values[index]
        assert isinstance(value, Tensor)
        return value


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of bytes behind the FlatBuffer.

    Attributes:
        offset: bytes from the start of the file.
        data: its bytes.
        use: what refers to it: "constants", "mutable data", "delegate", "named data"; empty if nothing does.
    """

    offset: int
    data: memoryview = field(repr=False)
    use: str


@dataclass(frozen=True, slots=True)
class Program:
    """A whole .pte file.

    Attributes:
        file_bytes: size of the file.
        flatbuffer_bytes: size of the part that is a FlatBuffer, extended header included.
        methods: in the order of the file.
        segments: in the order of the file.
        named_data: key -> segment, for data that backends look up.
    """

    file_bytes: int
    flatbuffer_bytes: int
    methods: tuple[Method, ...]
    segments: tuple[Segment, ...]
    named_data: dict[str, int]

    def named_bytes(self) -> dict[str, memoryview]:
        """The named data: key -> bytes, views of the file."""
        return {key: self.segments[index].data for key, index in self.named_data.items()}

    def method(self, name: str) -> Method:
        """The method of a name.

        Raises:
            KeyError: there is none.
        """
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(name)
