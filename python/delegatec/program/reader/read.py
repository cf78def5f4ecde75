# SPDX-License-Identifier: Apache-2.0
"""Reader of `.pte` programs of any compiler.

Every offset, length and index is checked: any damage raises a single `DelegatecError`. Values refer to the
file's memory map; no weights are copied.
"""

from __future__ import annotations

from pathlib import Path

from delegatec_schemas import program as schema

from delegatec.flatbuffer import Table, fail
from delegatec.program.reader.checks import check_program
from delegatec.program.reader.data import Data
from delegatec.program.reader.layout import mapped, read_layout
from delegatec.program.reader.method import read_method
from delegatec.program.reader.model import Program, Segment

_VERSION = 0


def read_program(path: Path | str) -> Program:
    """Reads a file, which stays mapped as long as any value read from it.

    Args:
        path: the file.

    Raises:
        DelegatecError: DC350 not a .pte program, DC351 truncated, DC352 damaged, DC353 inconsistent indices,
            DC354 unsupported version.
        OSError: it cannot be opened.
    """
    return parse_program(mapped(path, ".pte program"))


def parse_program(file: bytes | memoryview) -> Program:
    """Reads a program from memory. See `read_program`."""
    view = memoryview(file).cast("B").toreadonly()
    layout = read_layout(view)
    root = Table.root(schema.Program, layout.flatbuffer, "DC352")
    version = root.scalar("Version")
    if version != _VERSION:
        fail("DC354", f"unsupported format version {version}: this reader supports {_VERSION}")
    data = Data(layout, root)
    methods = tuple(read_method(plan, data) for plan in root.children("ExecutionPlan"))
    program = Program(
        file_bytes=len(view),
        flatbuffer_bytes=len(layout.flatbuffer),
        methods=methods,
        segments=tuple(
            Segment(offset, content, use)
            for offset, content, use in zip(data.offsets, data.segments, data.uses, strict=True)
        ),
        named_data=data.named,
    )
    check_program(program)
    return program
