# SPDX-License-Identifier: Apache-2.0
"""The header of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from delegatec.app.arenas import Arenas
from delegatec.app.identifiers import identifiers, type_name
from delegatec.app.shapes import Shapes
from delegatec.app.signature import Function, function_of
from delegatec.program.reader.model import Program
from delegatec.report.manifest import Manifest

# Members of the generated class and its base, and what else its methods cannot be named.
_TAKEN: Final = ("Program", "TypedProgram", "call", "load", "module")
# Arenas of a method that shares none: entry 0 is reserved.
_OWN_ARENAS: Final = 2


@dataclass(frozen=True)
class Location:
    """Where an app finds a program.

    Attributes:
        pte: its path in the runfiles; "" if it is embedded.
        ptd: likewise of its weights; "" without.
        symbol: what the symbols of the embedded files start with; "" for files.
        has_weights: whether it has external weights.
    """

    pte: str = ""
    ptd: str = ""
    symbol: str = ""
    has_weights: bool = False


def header(
    program: Program,
    manifest: Manifest,
    namespace: str,
    location: Location,
    memory: Mapping[str, Arenas],
    shapes: Shapes,
) -> str:
    """Returns the header of a program: a class with a function for each method.

    Args:
        program: the program.
        manifest: its manifest.
        namespace: namespace of the class.
        location: where the app finds it.
        memory: method -> sizes of its arenas, of those that were measured.
        shapes: the sizes that inputs may have, if they are known.

    Raises:
        DelegatecError: DC519, for a method that cannot be a function.
    """
    infos = {each.name: each for each in manifest.methods}
    arenas = {each.name: each.arenas for each in manifest.constant_methods}
    arenas |= {each.name: each.arenas for each in manifest.methods}
    names = identifiers((method.name for method in program.methods), _TAKEN)
    types = identifiers(map(type_name, names))
    functions: list[Function] = [
        function_of(
            method,
            infos.get(method.name),
            name,
            prefix,
            memory.get(method.name),
            arenas.get(method.name),
            shapes.get(method.name, []),
        )
        for method, name, prefix in zip(program.methods, names, types, strict=True)
    ]
    environment = Environment(
        loader=PackageLoader("delegatec.app"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("program.h.jinja").render(
        measured=bool(memory),
        backends=manifest.runtime.backends,
        functions=functions,
        kernels=manifest.runtime.kernels,
        label=manifest.label,
        namespace=namespace,
        location=location,
        shares_state=any(len(method.arena_bytes) > _OWN_ARENAS for method in program.methods),
    )
