# SPDX-License-Identifier: Apache-2.0
"""The contents of a `.pte` of any compiler."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from delegatec.delegation import Backend
from delegatec.program.reader import read_program
from delegatec.program.reader.model import CompileSpec, Dynamism, KernelCall, Method, Program, Tensor, Value
from delegatec.program.reader.state import parts_of_state, state_of
from delegatec.report.arenas import arenas_of
from delegatec.report.file_parts import file_ranges
from delegatec.report.memory_info import ArenaInfo
from delegatec.report.methods import OperatorCount
from delegatec.report.needs import RuntimeNeeds, needs_of

_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class PartContents:
    """A byte range of the file, as `FilePart` of a manifest, with its hash."""

    kind: str
    offset: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class TensorContents:
    """A tensor, or a scalar (whose text is its name): dtype, sizes (upper bounds if `dynamic`), layout."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    dynamic: bool
    layout: str = ""


@dataclass(frozen=True)
class DelegateContents:
    """A delegate: backend id, size and hash of its blob, settings (text, or hexadecimal after "0x")."""

    backend: str
    bytes: int
    sha256: str
    compile_specs: dict[str, str]


@dataclass(frozen=True)
class MethodContents:
    """A method.

    Attributes:
        name: name of the method, such as "forward".
        inputs: the arguments.
        outputs: the results.
        values: number of values.
        instructions: number of instructions.
        kernels: kernels of the runtime, with their numbers of calls.
        delegates: its delegates.
        arena_bytes: size of each arena of planned memory.
        arenas: what an app allocates for it.
        planned: number of tensors in them.
        constants: number of constant tensors.
        constant_bytes: their size, without duplicates.
        external: keys of constants and initial states in a `.ptd`.
        external_bytes: their size.
        state: mutable buffers with initial bytes.
    """

    name: str
    inputs: tuple[TensorContents, ...]
    outputs: tuple[TensorContents, ...]
    values: int
    instructions: int
    kernels: tuple[OperatorCount, ...]
    delegates: tuple[DelegateContents, ...]
    arena_bytes: tuple[int, ...]
    planned: int
    constants: int
    constant_bytes: int
    external: tuple[TensorContents, ...]
    external_bytes: int
    state: tuple[TensorContents, ...]
    arenas: ArenaInfo


@dataclass(frozen=True)
class ProgramContents:
    """A program file: size, hash, parts (the program, then the segments), methods, and what an app links."""

    bytes: int
    sha256: str
    parts: tuple[PartContents, ...]
    named_data: dict[str, int]
    methods: tuple[MethodContents, ...]
    runtime: RuntimeNeeds


def inspect_program(pte: Path | str, backends: Iterable[Backend] = ()) -> ProgramContents:
    """Reads and summarizes a program.

    Args:
        pte: the file.
        backends: the registry: they know what delegates take of an app's allocators.

    Raises:
        DelegatecError: DC35x, it cannot be read; DC410 and DC411 for a faulty plug-in.
    """
    program = read_program(pte)
    arenas = arenas_of(program, backends, has_weights=_has_weights(program))
    with open(pte, "rb") as file:
        parts = tuple(PartContents(*part, _hash(file, *part[1:])) for part in file_ranges(program))
        whole = _hash(file, 0, program.file_bytes)
    return ProgramContents(
        bytes=program.file_bytes,
        sha256=whole,
        parts=parts,
        named_data=program.named_data,
        methods=tuple(_method(method, arenas[method.name]) for method in program.methods),
        runtime=needs_of(program),
    )


def _hash(file: BinaryIO, offset: int, size: int) -> str:
    digest = hashlib.sha256()
    file.seek(offset)
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


def spec_text(spec: CompileSpec) -> str:
    """Returns the value of a compile spec: text if it is printable ASCII, else hexadecimal after "0x"."""
    if spec.value.isascii() and spec.value.decode("ascii").isprintable():
        return spec.value.decode("ascii")
    return f"0x{spec.value.hex()}"


def layout_name(tensor: Tensor) -> str:
    """Returns torch's name of a dim order, or else the dimensions from outermost to innermost."""
    order = tensor.dim_order
    if order == tuple(range(len(order))):
        return "contiguous"
    channels_last = order in {(0, 2, 3, 1), (0, 2, 3, 4, 1)}
    return "channels_last" if channels_last else f"dim_order {', '.join(map(str, order))}"


def kernel_counts(method: Method) -> tuple[OperatorCount, ...]:
    """Returns the kernels that a method calls, the most frequent first."""
    calls = Counter(
        method.operators[instruction.operator]
        for chain in method.chains
        for instruction in chain.instructions
        if isinstance(instruction, KernelCall)
    )
    by_count = sorted(calls.items(), key=lambda item: (-item[1], item[0]))
    return tuple(OperatorCount(name, count) for name, count in by_count)


def _has_weights(program: Program) -> bool:
    return any(
        isinstance(value, Tensor) and value.external_key is not None
        for method in program.methods
        for value in method.values
    )


def _method(method: Method, arenas: ArenaInfo) -> MethodContents:
    tensors = [value for value in method.values if isinstance(value, Tensor)]
    constants = {v.data_index: v.nbytes for v in tensors if v.is_constant and v.data is not None}
    external = list({v.external_key: v for v in tensors if v.external_key is not None}.values())
    return MethodContents(
        name=method.name,
        inputs=tuple(_values(method, method.inputs)),
        outputs=tuple(_values(method, method.outputs)),
        values=len(method.values),
        instructions=sum(len(chain.instructions) for chain in method.chains),
        kernels=kernel_counts(method),
        delegates=tuple(
            DelegateContents(
                delegate.id,
                len(delegate.blob),
                hashlib.sha256(delegate.blob).hexdigest(),
                {spec.key: spec_text(spec) for spec in delegate.compile_specs},
            )
            for delegate in method.delegates
        ),
        arena_bytes=method.arena_bytes[1:],
        planned=sum(value.allocation is not None for value in tensors) - len(parts_of_state(method)),
        constants=len(constants),
        constant_bytes=sum(constants.values()),
        external=tuple(map(_value, external)),
        external_bytes=sum(value.nbytes for value in external),
        state=tuple(map(_value, state_of(method))),
        arenas=arenas,
    )


def _values(method: Method, indices: Iterable[int]) -> Iterable[TensorContents]:
    return (_value(method.values[index]) for index in indices)


def _value(value: Value) -> TensorContents:
    if isinstance(value, Tensor):
        dynamic = value.dynamism is not Dynamism.STATIC
        return TensorContents(value.name, value.kind.name, value.sizes, dynamic, layout_name(value))
    return TensorContents(repr(value), type(value).__name__, (), False)
