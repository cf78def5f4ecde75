# SPDX-License-Identifier: Apache-2.0
"""The manifest: what is in a program and why, for tools. One JSON object, whose schema are these classes.

It is a function of the program: no times, no absolute paths. All sizes are in bytes.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Final

# Raised when a field changes its meaning or goes away; new fields do not raise it.
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True)
class Location:
    """A line of the user's code: workspace-relative file, line from 1, function, and the line's text."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class Argument:
    """An input or an output of a method.

    Attributes:
        name: of its node in the exported program; a number's text for a constant.
        dtype: such as "float32"; the Python type of a number.
        shape: sizes; upper bounds where `dynamic`. Empty for numbers.
        dynamic: whether a size may be smaller at run time.
        path: where it is in what the model's method takes or returns, such as "args[0]['image']",
            "kwargs['mask']" or "result[1]".
        layout: order of its elements in memory: "contiguous", or "channels_last" for an input whose example
            is; a caller has to pass it so, as the runtime does not look. Empty for numbers.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dynamic: bool
    path: str = ""
    layout: str = ""


@dataclass(frozen=True)
class OperatorCount:
    """A kernel of the runtime, such as "aten::add.out", and how many instructions call it."""

    name: str
    count: int


@dataclass(frozen=True)
class Weight:
    """Constant data.

    Attributes:
        names: fully qualified names; more than one where weights are tied or equal and stored once.
        dtype: such as "float32".
        shape: sizes.
        bytes: size.
        mutable: whether it is the initial state of a buffer.
        external: whether it is in the `.ptd`, under its one name, and not in the program.
    """

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    mutable: bool
    external: bool = False


@dataclass(frozen=True)
class DelegateInfo:
    """A delegate.

    One that the exported program had already stands for no operator, and says nothing of what it was made of.

    Attributes:
        name: in the program, such as "lowered_0".
        backend: id that the runtime looks up.
        bytes: size of its blob.
        sha256: of its blob.
        nodes: how many operators of the edge program it stands for.
        operators: these operators, counted.
        compile_specs: key -> value; as text where it is printable ASCII, else in hexadecimal after "0x".
        inputs: names of what it reads.
        outputs: names of what it writes.
        weights: the constants that it reads, largest first, as the model has them: what its blob holds may
            have another dtype.
    """

    name: str
    backend: str
    bytes: int
    sha256: str
    nodes: int
    operators: tuple[OperatorCount, ...]
    compile_specs: dict[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[Weight, ...]


@dataclass(frozen=True)
class NotDelegated:
    """Why a backend left a node.

    Attributes:
        node: its name.
        operator: what it calls.
        backend: who left it.
        rule: stable short id of the rule that it broke.
        message: what broke it, with the value.
        help: what would make the backend take it; empty if nothing would.
        location: the user's line.
    """

    node: str
    operator: str
    backend: str
    rule: str
    message: str
    help: str
    location: Location | None


@dataclass(frozen=True)
class GraphNode:
    """A node of the method's graph after delegation: an operator, or a whole delegate.

    Attributes:
        name: of the node.
        operator: what it calls; the backend's id for a delegate.
        delegate: index into the method's delegates; None for an operator.
        inputs: indices of the nodes that it reads (constants and inputs of the method are left out).
        reads_input: whether it reads an input of the method.
        is_output: whether the method returns it, or keeps it as state.
        location: the user's line.
    """

    name: str
    operator: str
    delegate: int | None
    inputs: tuple[int, ...]
    reads_input: bool
    is_output: bool
    location: Location | None


@dataclass(frozen=True)
class PlannedStorage:
    """Bytes of planned memory.

    Attributes:
        name: the value that it was made for.
        bytes: size.
        offset: in the arena.
        first: number of the instruction that writes it; -1 for an input.
        last: number of the last instruction that reads it.
    """

    name: str
    bytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryInfo:
    """The memory plan of a method.

    Attributes:
        arena_bytes: planned memory that the method needs.
        lower_bound_bytes: the most bytes alive at one time; no plan is smaller.
        order: name of the order of placement that won.
        storages: what lies where, and when.
    """

    arena_bytes: int
    lower_bound_bytes: int
    order: str
    storages: tuple[PlannedStorage, ...]


@dataclass(frozen=True)
class MethodInfo:
    """A method.

    Attributes:
        name: such as "forward".
        backends: names of the backends that were asked, in order of priority; none for the portable kernels.
        inputs: what a caller passes.
        outputs: what it gets.
        nodes: operators of the edge program before delegation.
        nodes_delegated: how many of them are in delegates.
        instructions: how many the runtime executes.
        kernels: the runtime's kernels that they call.
        delegates: delegates that they call.
        not_delegated: for each node that stayed, one for each backend that was asked.
        memory: its memory plan.
        graph: its graph after delegation, in the order of execution.
    """

    name: str
    backends: tuple[str, ...]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    nodes: int
    nodes_delegated: int
    instructions: int
    kernels: tuple[OperatorCount, ...]
    delegates: tuple[DelegateInfo, ...]
    not_delegated: tuple[NotDelegated, ...]
    memory: MemoryInfo
    graph: tuple[GraphNode, ...]


@dataclass(frozen=True)
class ConstantMethod:
    """A method without inputs and instructions: its name, and what it returns at every call."""

    name: str
    outputs: tuple[Argument, ...]


@dataclass(frozen=True)
class FilePart:
    """A run of bytes of the file: the "program" itself, or a segment ("constants", "delegate" and so on)."""

    kind: str
    offset: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class FileInfo:
    """The file. What its parts do not cover is padding."""

    bytes: int
    sha256: str
    parts: tuple[FilePart, ...]


@dataclass(frozen=True)
class Manifest:
    """The whole.

    Attributes:
        schema_version: `SCHEMA_VERSION`.
        compiler: name and version of the compiler.
        label: the target that was built.
        backend: name of the backend that was asked, or of all with commas between them, or "portable".
        options: value of each option; named "BACKEND.OPTION" if there are several backends.
        methods: those that compute something, in the order of the file.
        constant_methods: the others.
        weights: what the runtime's kernels read, in the order of the file; what delegates read is with them.
        file: size and hashes.
    """

    schema_version: int
    compiler: str
    label: str
    backend: str
    options: dict[str, str | tuple[str, ...]]
    methods: tuple[MethodInfo, ...]
    constant_methods: tuple[ConstantMethod, ...]
    weights: tuple[Weight, ...]
    file: FileInfo


def to_json(manifest: Manifest) -> str:
    """The manifest as JSON text: two spaces an indent, a line feed at the end."""
    return json.dumps(dataclasses.asdict(manifest), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
