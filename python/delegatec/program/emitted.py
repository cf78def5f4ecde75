# SPDX-License-Identifier: Apache-2.0
"""An emitted program: everything that a .pte holds, as plain values, before it is bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from delegatec.delegation import NamedData, Part
from delegatec.program.options import ProgramOptions
from delegatec.program.planning.memory_plan import MemoryPlan


@dataclass(frozen=True)
class TensorValue:
    """A tensor in the values of a method.

    Attributes:
        scalar_type: c10::ScalarType.
        sizes: upper bounds where `is_dynamic`.
        constant_index: index into the constants (or, if `is_mutable`, into the mutable data); 0 for none.
        offset: offset in bytes into its arena; None for a tensor that is in none.
        arena: `memory_plan.PLANNED`, or `memory_plan.STATE`.
        is_dynamic: whether a size may be smaller at run time.
        is_mutable: whether its planned memory starts from bytes in the file.
        name: fully qualified name of a buffer that is mutable, or of a weight that is external; empty
            otherwise.
        is_external: whether its bytes are in a `.ptd`, under its name; it has no `constant_index` then.
        dim_order: dimensions from the outermost in memory to the innermost; empty for row-major.
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
    """A list in the values of a method.

    Attributes:
        kind: "IntList", "TensorList" or "OptionalTensorList", whose items are indices of values, or
            "DoubleList" or "BoolList", whose items are numbers.
        items: the items.
    """

    kind: str
    items: tuple[int | float | bool, ...]


# None, bool, int, float and str stand for themselves.
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
    """Lets the value `target` be what the value `source` is: a number, or the same tensor."""

    source: int
    target: int


@dataclass(frozen=True)
class JumpFalseCall:
    """Goes on with the instruction `destination`, and with the next one if the value `condition` holds."""

    condition: int
    destination: int


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall


@dataclass(frozen=True)
class Delegate:
    """A delegate of a method.

    Attributes:
        backend_id: the id under which the backend registered itself in the runtime.
        blob: parts whose concatenation is what the backend's `init` gets.
        compile_specs: (key, value) pairs, in order.
        name: its name in the edge program.
        debug_handle_map: the backend's id of an instruction -> debug handles.
        named_data: key -> data that the backend looks up while it loads the blob.
        num_outputs: number of its outputs, which are the last of a call's arguments.
        constant_names: id of a constant in the blob's graph -> its fully qualified name; for the debug map.
    """

    backend_id: str
    blob: tuple[Part, ...]
    compile_specs: tuple[tuple[str, bytes], ...]
    name: str
    debug_handle_map: dict[int | str, tuple[int, ...]]
    named_data: dict[str, NamedData] = field(default_factory=dict)
    num_outputs: int = 1
    constant_names: dict[int, str] = field(default_factory=dict)


@dataclass
class EmittedMethod:
    """One method.

    Attributes:
        name: such as "forward".
        values: all values; instructions, lists, inputs and outputs refer to them by index.
        inputs: what the caller passes, in order.
        outputs: what it gets back, in order.
        operators: (name, overload) of each kernel that is called, such as ("aten::add", "out").
        instructions: in the order in which they run.
        debug_handles: debug handles of each instruction; of the call of a delegate, those of all its nodes.
        delegates: what delegate calls refer to.
        memory_plan: the arena of planned memory.
        state_bytes: size of the arena of the state that methods share; 0 for none.
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
    in_spec: str = ""
    out_spec: str = ""


@dataclass
class EmittedProgram:
    """A program.

    Attributes:
        methods: in order of their names' first use.
        constants: bytes of constant 1, 2, ... (0 stands for none).
        constant_names: fully qualified names of each constant, sorted; more than one where weights are tied.
        mutable_data: initial bytes of mutable buffer 1, 2, ...
        external: name -> bytes of each weight that is read from a `.ptd`; the `.pte` does not have them.
        named_data: key -> data that delegates look up.
        options: how the file is laid out.
    """

    methods: list[EmittedMethod]
    constants: list[memoryview] = field(default_factory=list)
    constant_names: list[tuple[str, ...]] = field(default_factory=list)
    mutable_data: list[memoryview] = field(default_factory=list)
    external: dict[str, memoryview] = field(default_factory=dict)
    named_data: dict[str, NamedData] = field(default_factory=dict)
    options: ProgramOptions = field(default_factory=ProgramOptions)
