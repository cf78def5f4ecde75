# SPDX-License-Identifier: Apache-2.0
"""The contents of a `.pte` file as plain immutable values, created by `delegatec.program.reader`.

Indices are those of the file, and have been checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from delegatec.program.reader.types import ScalarKind


class Dynamism(Enum):
    """How dynamic the shape of a tensor is, with the values of the file format."""

    STATIC = 0
    BOUND = 1
    UNBOUND = 2


@dataclass(frozen=True, slots=True)
class Allocation:
    """A location in planned memory.

    Attributes:
        arena: memory id, an index >= 1 into `Method.arena_bytes`.
        offset: offset in bytes in that arena.
    """

    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor value.

    Attributes:
        kind: its dtype.
        sizes: its shape; upper bounds where `dynamism` is BOUND.
        dim_order: dimensions from outermost to innermost in memory.
        dynamism: whether the shape may change at run time.
        allocation: its planned memory; None for constants, and for tensors in the caller's memory.
        data_index: entry of the constants (without allocation) or of the mutable data (with); 0 for no data.
        data: its bytes in the file: a constant, or the initial state of a mutable buffer; None otherwise.
        external_key: its name in a `.ptd` file, for external data.
        name: fully qualified name, if the file has it.
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
        """Number of bytes of its elements (at its largest shape)."""
        return math.prod(self.sizes) * self.kind.itemsize

    @property
    def is_constant(self) -> bool:
        """Whether it is immutable."""
        return self.allocation is None and (self.data is not None or self.external_key is not None)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, for the sizes in the file."""
        return strides_of(self.sizes, self.dim_order)


def strides_of(sizes: tuple[int, ...], dim_order: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides, in elements, of a dense tensor with a given dim order."""
    strides = [0] * len(sizes)
    stride = 1
    for dim in reversed(dim_order):
        strides[dim] = stride
        stride *= max(1, sizes[dim])
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class IntList:
    """A list of ints: indices of the values with the items, which may change at run time."""

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
    """A list of tensors.

    Attributes:
        items: indices of values; None for missing optional tensors.
        optional: whether its type is that of lists of optional tensors.
    """

    items: tuple[int | None, ...]
    optional: bool = False


Value = None | bool | int | float | str | Tensor | IntList | DoubleList | BoolList | TensorList


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Calls a kernel.

    Attributes:
        operator: index into `Method.operators`.
        args: indices of values: all arguments of the schema, then the results.
    """

    operator: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Calls a delegate.

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
    """Jumps to instruction `destination` unless value `condition` (a bool or a bool tensor) is all true."""

    condition: int
    destination: int


@dataclass(frozen=True, slots=True)
class FreeCall:
    """Frees the memory of the unbounded tensor `value`."""

    value: int


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


@dataclass(frozen=True, slots=True)
class Chain:
    """Instructions in execution order."""

    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class CompileSpec:
    """A setting passed to a backend; see `delegatec.delegation.CompileSpec`."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delegate:
    """A compiled part of a method.

    Attributes:
        id: id of its backend in the runtime.
        blob: the blob, a view of the file.
        segment: the segment that contains the blob; None for one inside the FlatBuffer.
        compile_specs: settings passed to the backend.
    """

    id: str
    blob: memoryview = field(repr=False)
    segment: int | None
    compile_specs: tuple[CompileSpec, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the program: an execution plan.

    Attributes:
        name: name of the method, such as "forward".
        inputs: indices of the values that the caller sets.
        outputs: indices of the values that the caller gets.
        values: all values.
        operators: full names, such as "aten::add.out".
        chains: the instructions; the runtime runs chain 0.
        delegates: the delegates that its instructions call.
        arena_bytes: size of each arena of planned memory; entry 0 is reserved.
        in_spec: the tree of its inputs, as written by its compiler; ours and ExecuTorch's write the JSON of
            `torch.utils._pytree.treespec_dumps`.
        out_spec: likewise for its outputs.
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
        """Returns the tensor at an index."""
        value = self.values[index]
        assert isinstance(value, Tensor)
        return value


@dataclass(frozen=True, slots=True)
class Segment:
    """A byte range after the FlatBuffer.

    Attributes:
        offset: offset in the file in bytes.
        data: its bytes.
        use: the users: "constants", "mutable data", "delegate", "named data"; empty if unused.
    """

    offset: int
    data: memoryview = field(repr=False)
    use: str


@dataclass(frozen=True, slots=True)
class Program:
    """A `.pte` file.

    Attributes:
        file_bytes: size of the file.
        flatbuffer_bytes: size of the FlatBuffer, including the extended header.
        methods: in the order of the file.
        segments: in the order of the file.
        named_data: key -> segment, for data that backends load by name.
    """

    file_bytes: int
    flatbuffer_bytes: int
    methods: tuple[Method, ...]
    segments: tuple[Segment, ...]
    named_data: dict[str, int]

    def named_bytes(self) -> dict[str, memoryview]:
        """Returns the named data: key -> bytes, views of the file."""
        return {key: self.segments[index].data for key, index in self.named_data.items()}

    def method(self, name: str) -> Method:
        """Returns a method by name.

        Raises:
            KeyError: no such method.
        """
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(name)
