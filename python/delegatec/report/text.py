# SPDX-License-Identifier: Apache-2.0
"""Plain text for the terminal: the output of `inspect` for programs and data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from delegatec.report.data_file import DataFileContents
from delegatec.report.inspection import MethodContents, ProgramContents, TensorContents
from delegatec.report.memory_info import AllocatorInfo, ArenaInfo
from delegatec.report.needs import links_text
from delegatec.report.sizes import human_bytes


def format_program(contents: ProgramContents) -> str:
    """Returns a program as text.

    Args:
        contents: the program's contents.

    Returns:
        Lines, with a final newline.
    """
    lines = [f"program of {len(contents.methods)} method(s), {_size(contents.bytes)}"]
    lines += [f"an app links: {links_text(contents.runtime)}", ""]
    # Segments follow the program.
    keys = {segment + 1: key for key, segment in contents.named_data.items()}
    rows = [
        (part.kind, str(part.offset), str(part.bytes), keys.get(index, ""))
        for index, part in enumerate(contents.parts)
    ]
    lines += _table([("part", "offset", "bytes", "key" if keys else ""), *rows])
    for method in contents.methods:
        lines += ["", *_method(method)]
    return "\n".join(lines) + "\n"


def format_data_file(contents: DataFileContents) -> str:
    """Returns a data file as text, with a final newline."""
    lines = [f"data file of {len(contents.entries)} name(s), {_size(contents.bytes)}", ""]
    head = ("name", "what", "offset", "bytes", "sha256")
    rows = [
        (
            e.key,
            f"{e.dtype}[{', '.join(map(str, e.shape))}]" if e.dtype else "bytes",
            str(e.offset),
            str(e.bytes),
            e.sha256[:16],
        )
        for e in contents.entries
    ]
    return "\n".join([*lines, *_table([head, *rows])]) + "\n"


def _method(method: MethodContents) -> list[str]:
    lines = [f"method {method.name}: {method.instructions} instruction(s), {method.values} values"]
    lines += [f"  input {i}   {_tensor(value)}" for i, value in enumerate(method.inputs)]
    lines += [f"  output {i}  {_tensor(value)}" for i, value in enumerate(method.outputs)]
    arenas = ", ".join(map(_size, method.arena_bytes)) or "none"
    lines.append(f"  planned memory: {arenas} for {method.planned} tensors")
    lines += _allocators(method.arenas)
    lines.append(f"  constants: {_size(method.constant_bytes)} in {method.constants} tensors")
    if method.external:
        lines.append(
            f"  external: {_size(method.external_bytes)} in {len(method.external)} tensors of a .ptd"
        )
        lines += _indented(_table([(value.name, _tensor(value)) for value in method.external]))
    if method.state:
        lines.append("  state:")
        lines += _indented(_table([(value.name or "-", _tensor(value)) for value in method.state]))
    if method.delegates:
        lines.append("  delegates:")
        head = ("backend", "blob", "sha256", "settings")
        rows = [
            (
                d.backend,
                _size(d.bytes),
                d.sha256[:16],
                " ".join(f"{k}={v}" for k, v in d.compile_specs.items()),
            )
            for d in method.delegates
        ]
        lines += _indented(_table([head, *rows]))
    if method.kernels:
        lines.append("  kernels:")
        lines += _indented(_table([(kernel.name, str(kernel.count)) for kernel in method.kernels]))
    return lines


def _allocators(arenas: ArenaInfo) -> Iterator[str]:
    """Yields a line for each allocator, with its bytes on platforms of 64 and 32 bits."""
    rows = (("method", arenas.method, arenas.method_32), ("temporary", arenas.temporary, arenas.temporary_32))
    for name, wide, narrow in rows:
        yield f"  {name} allocator: {_allocator(wide)} on 64 bits, {_allocator(narrow)} on 32"


def _allocator(allocator: AllocatorInfo) -> str:
    text = f"{allocator.bytes} B"
    return f"{text} besides {', '.join(allocator.besides)}" if allocator.besides else text


def _tensor(value: TensorContents) -> str:
    if not value.shape and value.dtype in {"int", "float", "bool", "str", "NoneType"}:
        return f"{value.dtype} {value.name}"
    bound = " (upper bound)" if value.dynamic else ""
    layout = "" if value.layout in {"", "contiguous"} else f" {value.layout}"
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]{bound}{layout}"


def _size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{human_bytes(count)} ({count} B)"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
