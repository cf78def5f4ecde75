# SPDX-License-Identifier: Apache-2.0
"""The methods of a program in its manifest: arguments, weights, delegates, notes.

All sizes are in bytes. Checksums are CRC-32, in 8 hexadecimal digits.
"""

from __future__ import annotations

from dataclasses import dataclass

from delegatec.report.decoding import Count, Size
from delegatec.report.memory_info import ArenaInfo, MemoryInfo


@dataclass(frozen=True)
class Location:
    """A line of user code: workspace-relative file, 1-based line, function, and source text."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class Argument:
    """An input or an output of a method.

    Attributes:
        name: name of its node in the exported program; a scalar's text for a constant.
        dtype: dtype, such as "float32"; the Python type of a scalar.
        shape: sizes; upper bounds if `dynamic`. Empty for scalars.
        dynamic: whether sizes may be smaller at run time.
        path: its path in the arguments or results of the model's method, such as "args[0]['image']",
            "kwargs['mask']" or "result[1]".
        layout: "contiguous" or "channels_last"; an input has that of its example. Callers must respect it:
            the runtime does not check it. Empty for scalars.
    """

    name: str
    dtype: str
    shape: tuple[Size, ...]
    dynamic: bool
    path: str = ""
    layout: str = ""


@dataclass(frozen=True)
class OperatorCount:
    """A kernel of the runtime, such as "aten::add.out", and its number of calls."""

    name: str
    count: Count


@dataclass(frozen=True)
class Weight:
    """Constant data.

    Attributes:
        names: fully qualified names; several if weights are tied, or equal and stored once.
        dtype: dtype, such as "float32".
        shape: sizes.
        bytes: size in bytes.
        mutable: whether it is the initial state of a buffer.
        external: whether it is in the `.ptd` instead of the program.
    """

    names: tuple[str, ...]
    dtype: str
    shape: tuple[Size, ...]
    bytes: Size
    mutable: bool
    external: bool = False


@dataclass(frozen=True)
class LayerInfo:
    """The estimates of one operation of a delegate.

    Attributes:
        name: its name in the delegate.
        operation: its kind.
        figures: name of each estimate -> value.
        location: the user's line.
    """

    name: str
    operation: str
    figures: dict[str, int]
    location: Location | None = None


@dataclass(frozen=True)
class EstimateInfo:
    """Estimates by the compiler of a delegate's device.

    Attributes:
        source: the program that estimates, and its version.
        totals: name of each estimate, with its unit, such as "sram_bytes" -> value.
        layers: the operations of the delegate, in execution order.
    """

    source: str
    totals: dict[str, int]
    layers: tuple[LayerInfo, ...]


@dataclass(frozen=True)
class DelegateInfo:
    """A delegate.

    For a delegate of the exported program itself, nodes and operators are unknown.

    Attributes:
        name: name in the program, such as "lowered_0".
        backend: id of its backend in the runtime.
        bytes: size of its blob.
        crc32: checksum of its blob.
        nodes: number of operators of the edge program that it replaces.
        operators: these operators, counted.
        compile_specs: key -> value; as text if printable ASCII, else in hexadecimal after "0x".
        inputs: names of its operands.
        outputs: names of its results.
        weights: the model's constants that it reads, largest first; its blob may store them with another
            dtype.
        estimates: of its speed and memory, if the backend knows them.
    """

    name: str
    backend: str
    bytes: Size
    crc32: str
    nodes: Size
    operators: tuple[OperatorCount, ...]
    compile_specs: dict[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[Weight, ...]
    estimates: EstimateInfo | None = None


@dataclass(frozen=True)
class NotDelegated:
    """Why a backend did not take a node.

    Attributes:
        node: its name.
        operator: the operator.
        backend: name of the backend.
        rule: stable short id of the violated rule.
        message: the violation, with the value.
        help: what would make the backend take it, if anything.
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
    """A node of the method's graph after delegation: an operator or a delegate.

    Attributes:
        name: name of the node.
        operator: the operator; the backend's id for a delegate.
        delegate: index into the method's delegates; None for an operator.
        inputs: indices of its operands (without constants and inputs of the method).
        reads_input: whether it reads an input of the method.
        is_output: whether the method returns it, or stores it as state.
        location: the user's line.
    """

    name: str
    operator: str
    delegate: Size | None
    inputs: tuple[Size, ...]
    reads_input: bool
    is_output: bool
    location: Location | None


@dataclass(frozen=True)
class QuantizedValue:
    """A quantized value of the exported program.

    Attributes:
        name: fully qualified name of a quantized weight, or the node of an activation.
        kind: "weight" or "activation".
        dtype: the quantized dtype, such as "int8".
        scales: the least and the largest scale; empty if the program computes them.
        zero_points: the least and the largest zero point likewise.
        groups: number of scales: 1 for one per tensor; 0 if the program computes them.
        location: the user's line.
    """

    name: str
    kind: str
    dtype: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    groups: Size
    location: Location | None


@dataclass(frozen=True)
class NoteInfo:
    """A note: what the method could save, or what was changed for its device.

    Attributes:
        name: its kind, such as "transposed-input".
        message: one sentence, with the figures.
        help: what to do; empty if nothing.
        location: the user's line, if there is one.
    """

    name: str
    message: str
    help: str
    location: Location | None


@dataclass(frozen=True)
class MethodInfo:
    """A method.

    Attributes:
        name: name of the method, such as "forward".
        backends: names of the requested backends, in order of priority; empty for the portable kernels.
        inputs: the arguments.
        outputs: the results.
        nodes: number of operators of the edge program before delegation.
        nodes_delegated: number of operators in delegates.
        instructions: number of instructions.
        kernels: the runtime's kernels that they call.
        delegates: delegates that they call.
        not_delegated: for each node that was not delegated, one entry per requested backend.
        memory: its memory plan.
        graph: its graph after delegation, in execution order.
        quantized: its quantized values, in execution order.
        arenas: what an app allocates for it; None in a manifest of an earlier compiler.
        notes: what it could save, and what was changed for its device.
        multiplications: those of its layers and products; of dynamic sizes, those of the example. 0 in a
            manifest of an earlier compiler, and without a requested backend.
        multiplications_delegated: those in delegates.
    """

    name: str
    backends: tuple[str, ...]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    nodes: Size
    nodes_delegated: Size
    instructions: Size
    kernels: tuple[OperatorCount, ...]
    delegates: tuple[DelegateInfo, ...]
    not_delegated: tuple[NotDelegated, ...]
    memory: MemoryInfo
    graph: tuple[GraphNode, ...]
    quantized: tuple[QuantizedValue, ...] = ()
    arenas: ArenaInfo | None = None
    notes: tuple[NoteInfo, ...] = ()
    multiplications: Size = 0
    multiplications_delegated: Size = 0


@dataclass(frozen=True)
class ConstantMethod:
    """A method without inputs and instructions: its name, its results, and what an app allocates for it."""

    name: str
    outputs: tuple[Argument, ...]
    arenas: ArenaInfo | None = None
