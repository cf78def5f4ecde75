# SPDX-License-Identifier: Apache-2.0
"""The bytes that an app gives the runtime for a method, from the program's file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from delegatec.delegation import Backend, DelegateMemory, plugins
from delegatec.diagnostics import DelegatecError
from delegatec.edge.kernels import KERNELS, PRIMITIVES
from delegatec.program.reader.model import Delegate, Method, Program
from delegatec.program.structures import SIZES_32, SIZES_64, method_bytes, temporary_bytes
from delegatec.report.memory_info import AllocatorInfo, ArenaInfo

# Namespaces of the runtime's kernels, none of which takes temporary memory; custom kernels may.
_OF_RUNTIME: Final = {name.partition("::")[0] for name in KERNELS | PRIMITIVES} | {"quantized_decomposed"}


def arenas_of(program: Program, backends: Iterable[Backend], *, has_weights: bool) -> dict[str, ArenaInfo]:
    """Returns method -> its arenas.

    Args:
        program: the program.
        backends: the registry: they know what their delegates take. Read if there are delegates.
        has_weights: whether the app loads a `.ptd` with the program.

    Raises:
        DelegatecError: DC410 and DC411 for a faulty plug-in.
    """
    has_delegates = any(method.delegates for method in program.methods)
    by_id = {backend.id: backend for backend in backends} if has_delegates else {}
    return {method.name: _arenas(program, method, by_id, has_weights) for method in program.methods}


def _arenas(
    program: Program, method: Method, backends: Mapping[str, Backend], has_weights: bool
) -> ArenaInfo:
    taken = [(delegate.id, _memory(delegate, backends)) for delegate in method.delegates]
    handles = [memory.handle or 0 for _, memory in taken]
    scratch = [memory.temporary or 0 for _, memory in taken]
    most: dict[str, int] = {}
    for name, memory in taken:
        if memory.temporary:
            most[name] = max(most.get(name, 0), memory.temporary)
    all_backends = _sorted(name for name, _ in taken)
    with_handle = _sorted(name for name, memory in taken if memory.handle is None)
    custom = (name for name in method.operators if name.partition("::")[0] not in _OF_RUNTIME)
    with_scratch = _sorted((*(name for name, memory in taken if memory.temporary is None), *custom))
    none = [0] * len(taken)
    return ArenaInfo(
        planned=method.arena_bytes[1:],
        method=AllocatorInfo(
            method_bytes(program, method, handles, SIZES_64, has_weights=has_weights), with_handle
        ),
        temporary=AllocatorInfo(temporary_bytes(method, scratch, SIZES_64), with_scratch),
        method_32=AllocatorInfo(
            method_bytes(program, method, none, SIZES_32, has_weights=has_weights), all_backends
        ),
        temporary_32=AllocatorInfo(temporary_bytes(method, scratch, SIZES_32), with_scratch),
        scratch=most,
    )


def _memory(delegate: Delegate, backends: Mapping[str, Backend]) -> DelegateMemory:
    backend = backends.get(delegate.id)
    if backend is None:
        return DelegateMemory()
    try:
        return plugins.call(Backend.memory, backend, delegate.blob)
    except DelegatecError as error:
        if any(problem.code != "DC407" for problem in error.diagnostics):
            raise
        return DelegateMemory()  # damaged, or another compiler's


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
