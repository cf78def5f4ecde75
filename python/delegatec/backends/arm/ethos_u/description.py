# SPDX-License-Identifier: Apache-2.0
"""The text about a blob, for `delegatec inspect`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from delegatec.backends.arm.ethos_u.commands import Stream, read_commands
from delegatec.backends.arm.ethos_u.container import Compiled, Port, damaged


def describe(compiled: Compiled) -> str:
    """Returns the text about a command stream.

    Raises:
        DelegatecError: DC407, its commands are damaged.
    """
    try:
        stream = read_commands(compiled.commands)
    except ValueError as error:
        damaged(str(error))
    return "\n".join(_lines(compiled, stream)) + "\n"


def _lines(compiled: Compiled, stream: Stream) -> Iterator[str]:
    yield f"Ethos-U command stream for {stream.macs} MACs per cycle"
    yield f"  commands: {len(stream.commands)}, {len(compiled.commands)} bytes"
    yield f"  weights: {len(compiled.weights)} bytes, compressed"
    yield f"  memory of a run: {compiled.scratch} bytes"
    yield from _ports("input", compiled.inputs)
    yield from _ports("output", compiled.outputs)
    yield "  operations: " + ", ".join(f"{count} {name}" for name, count in stream.counts().items())


def _ports(what: str, ports: Sequence[Port]) -> Iterator[str]:
    for index, port in enumerate(ports):
        shape = list(port.shape)
        while len(shape) > 1 and shape[0] == 1:
            shape.pop(0)
        yield (
            f"  {what} {index}: {shape} of {8 * port.element_size} bits, {port.size} bytes at {port.offset} "
            f"in region {port.region}"
        )
