# SPDX-License-Identifier: Apache-2.0
"""Emitted programs: the contents of a `.pte` as plain values, before serialization."""

from __future__ import annotations

from dataclasses import dataclass, field

from delegatec.delegation import NamedData, Part
from delegatec.program.options import ProgramOptions
from delegatec.program.planning.memory_plan import MemoryPlan


@dataclass(frozen=True)
class TensorValue:
    """A tensor among the values of a method.

    Attributes:
        scalar_type: c10::ScalarType.
        sizes: upper bounds where `is_dynamic`.
        constant_index: index into the constants (or, if `is_mutable`, into the mutable data); 0 for none.
        offset: offset in bytes in its arena; None for a tensor outside arenas.
        arena: its memory id.
        is_dynamic: whether sizes may be smaller at run time.
        is_mutable: whether its planned memory is initialized from the file.
        name: fully qualified name of a mutable buffer or external weight; empty otherwise.
        is_external: whether its bytes are in a `.ptd`, under its name, instead of a `constant_index`.
        dim_order: dimensions from outermost to innermost in memory; empty for row-major.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    constant_index: int = 0
    offset: int | None = None
    is_dynamic: bool = False
    is_mutable: bool = False
    name: str = ""
    is_external: bool = False
    arena: int = 1
    dim_order: tuple[int, ...] = ()


@dataclass(frozen=True)
class ListValue:
    """A list among the values of a method.

    Attributes:
        kind: "IntList", "TensorList" or "OptionalTensorList", whose items are indices of values, or
            "DoubleList" or "BoolList", whose items are scalars.
        items: the items.
    """

    kind: str
    items: tuple[int | float | bool, ...]


# None, bool, int, float and str represent themselves.
Value = bool | int | float | str | TensorValue | ListValue | None


@dataclass(frozen=True)
class KernelCall:
    """Calls a kernel: `operator` indexes the method's operators, `args` its values."""

    operator: int
    args: tuple[int, ...]


@dataclass(frozen=True)
class DelegateCall:
    """Calls a delegate: `delegate` indexes the method's delegates, `args` its values, inputs first."""

    delegate: int
    args: tuple[int, ...]


@dataclass(frozen=True)
class MoveCall:
    """Sets value `target` to value `source`: a scalar, or an alias of a tensor."""

    source: int
    target: int


@dataclass(frozen=True)
class JumpFalseCall:
    """Jumps to instruction `destination` unless the value `condition` holds."""

    condition: int
    destination: int


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall


@dataclass(frozen=True)
class Delegate:
    """A delegate of a method.

    Attributes:
        backend_id: the id of the backend in the runtime.
        blob: parts whose concatenation is passed to the backend's `init`.
        compile_specs: (key, value) pairs, in order.
        name: its name in the edge program.
        debug_handle_map: instruction id of the backend -> debug handles.
        named_data: key -> data that the backend loads by name.
        num_outputs: number of its outputs, which are the last arguments of a call.
        constant_names: id of a constant in the blob's graph -> its fully qualified name, for the debug map.
        inline: whether its blob must be inside the FlatBuffer, see `PreprocessResult.inline`.
    """

    backend_id: str
    blob: tuple[Part, ...]
    compile_specs: tuple[tuple[str, bytes], ...]
    name: str
    debug_handle_map: dict[int | str, tuple[int, ...]]
    named_data: dict[str, NamedData] = field(default_factory=dict)
    num_outputs: int = 1
    constant_names: dict[int, str] = field(default_factory=dict)
    inline: bool = False


@dataclass
class EmittedMethod:
    """An emitted method.

    Attributes:
        name: name of the method, such as "forward".
        values: all values; instructions, lists, inputs and outputs refer to them by index.
        inputs: the arguments, in order.
        outputs: the results, in order.
        operators: (name, overload) of each kernel in use, such as ("aten::add", "out").
        instructions: the instructions in execution order.
        debug_handles: debug handles of each instruction; for a delegate call, those of all its nodes.
        delegates: the delegates that calls refer to.
        memory_plan: the plan of the method's memories.
        state_bytes: size of the arena of shared state, whose memory id follows those of the plan; 0 for none.
        state_memory: name of the memory for that arena; "" if the user declares none.
        in_spec: the pytree of arguments, as text.
        out_spec: the pytree of results, as text.
    """

    name: str
    values: list[Value]
    inputs: list[int]
    outputs: list[int]
    operators: list[tuple[str, str]]
    instructions: list[Instruction]
    debug_handles: list[tuple[int, ...]]
    delegates: list[Delegate]
    memory_plan: MemoryPlan
    state_bytes: int = 0
    state_memory: str = ""
    in_spec: str = ""
    out_spec: str = ""


@dataclass
class EmittedProgram:
    """An emitted program.

    Attributes:
        methods: in order of their names' first use.
        constants: bytes of constants 1, 2, ... (0 means none).
        constant_names: fully qualified names of each constant, sorted; tied weights have several.
        mutable_data: initial bytes of mutable buffers 1, 2, ...
        external: name -> bytes of each weight that is loaded from a `.ptd` instead of the `.pte`.
        named_data: key -> data that delegates load by name.
        options: layout options.
    """

    methods: list[EmittedMethod]
    constants: list[Part] = field(default_factory=list)
    constant_names: list[tuple[str, ...]] = field(default_factory=list)
    mutable_data: list[Part] = field(default_factory=list)
    external: dict[str, memoryview] = field(default_factory=dict)
    named_data: dict[str, NamedData] = field(default_factory=dict)
    options: ProgramOptions = field(default_factory=ProgramOptions)
