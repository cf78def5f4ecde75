# SPDX-License-Identifier: Apache-2.0
"""Checks that a debug map and a manifest belong to a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delegatec.program.reader.model import KernelCall, Method, Program
from delegatec.report.manifest import Manifest


def debug_map_mismatch(document: Mapping[str, Any], program: Program) -> str:
    """Returns how a debug map differs from a program; empty if it may be the program's.

    Programs that differ only in the values of their weights are not distinguished: their maps are the same.

    Args:
        document: result of `debug_map` or `parse_debug_map`.
        program: the program.
    """
    methods = {method.name: method for method in program.methods}
    for name, described in document["methods"].items():
        if name not in methods:
            return f"it describes a method {name!r}, which the program does not have"
        if problem := _mismatch(described, methods[name]):
            return f"method {name}: {problem}"
    return ""


def manifest_mismatch(manifest: Manifest, program: Program) -> str:
    """Returns how a manifest differs from a program; empty if it may be the program's."""
    described = {method.name: len(method.delegates) for method in manifest.methods}
    methods = {method.name: len(method.delegates) for method in program.methods}
    if missing := sorted(described.keys() - methods.keys()):
        return f"it describes a method {missing[0]!r}, which the program does not have"
    for name, count in described.items():
        if count != methods[name]:
            return f"method {name}: it describes {count} delegate(s), but the program has {methods[name]}"
    if manifest.file.bytes != program.file_bytes:
        return f"it describes a file of {manifest.file.bytes} bytes, and it has {program.file_bytes}"
    return ""


def _mismatch(described: Mapping[str, Any], method: Method) -> str:
    instructions = method.chains[0].instructions if method.chains else ()
    expected, found = len(instructions), len(described["instructions"])
    if expected != found:
        return f"it describes {found} instruction(s), but the program has {expected}"
    for index, (entry, instruction) in enumerate(zip(described["instructions"], instructions, strict=True)):
        if isinstance(instruction, KernelCall) and entry["calls"] != method.operators[instruction.operator]:
            kernel = method.operators[instruction.operator]
            return f"it has {entry['calls']} for instruction {index}, the program {kernel}"
    delegates = [(delegate["backend"], delegate["bytes"]) for delegate in described["delegates"]]
    if delegates != [(delegate.id, len(delegate.blob)) for delegate in method.delegates]:
        return "its delegates have other sizes or backends than those of the program"
    return ""
