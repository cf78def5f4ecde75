# SPDX-License-Identifier: Apache-2.0
"""What an app links to run programs: backends of delegates, and kernels that are called outside of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from delegatec.edge.kernels import OPTIMIZED, PRIMITIVES
from delegatec.program.reader.model import KernelCall, Method, Program, Tensor, TensorList
from delegatec.program.reader.types import SCALAR_KINDS

# kind of a tensor -> its code in the file, c10::ScalarType
_SCALAR_TYPES: Final = {kind: number for number, kind in SCALAR_KINDS.items()}


@dataclass(frozen=True)
class RuntimeNeeds:
    """What the runtime needs to run a program, or several.

    Attributes:
        backends: ids of the delegates' backends, sorted.
        operators: each operator that is called outside of delegates, such as "aten::add.out", sorted -> the
            kernel keys of its calls, sorted. A key, such as "v1/6;0,1|6;0,1", has the code of the dtype
            (c10::ScalarType) and the dim order of each tensor; of a list of tensors, those of the first.
    """

    backends: tuple[str, ...] = ()
    operators: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The operators that need a library of kernels: the runtime itself has the primitives."""
        return tuple(name for name in self.operators if name not in PRIMITIVES)

    @property
    def optimized(self) -> tuple[str, ...]:
        """Those of them that only the library of optimized kernels has."""
        return tuple(name for name in self.operators if name in OPTIMIZED)


def needs_of(program: Program) -> RuntimeNeeds:
    """Returns what a program needs. An operator that is listed but never called has no keys."""
    keys: dict[str, set[str]] = {}
    for method in program.methods:
        for name in method.operators:
            keys.setdefault(name, set())
        for chain in method.chains:
            for instruction in chain.instructions:
                if isinstance(instruction, KernelCall):
                    keys[method.operators[instruction.operator]].add(_key(method, instruction))
    backends = {delegate.id for method in program.methods for delegate in method.delegates}
    return RuntimeNeeds(tuple(sorted(backends)), _sorted(keys))


def union_of(needs: Iterable[RuntimeNeeds]) -> RuntimeNeeds:
    """Returns what several programs need together."""
    backends: set[str] = set()
    keys: dict[str, set[str]] = {}
    for each in needs:
        backends.update(each.backends)
        for name, of_program in each.operators.items():
            keys.setdefault(name, set()).update(of_program)
    return RuntimeNeeds(tuple(sorted(backends)), _sorted(keys))


def links_text(needs: RuntimeNeeds) -> str:
    """Returns what an app links, in one line, such as "MPSBackend, and kernels of 2 operators"."""
    count = len(needs.kernels)
    kernels = f"kernels of {count} operator{'' if count == 1 else 's'}" if count else "no kernels"
    if needs.optimized:
        kernels += f" ({', '.join(needs.optimized)}: in the optimized library only)"
    if count == 0 and needs.backends:
        kernels += ": nothing is left outside of delegates"
        kernels += " but primitives of the runtime" if needs.operators else ""
    return ", ".join([*needs.backends, kernels])


def _key(method: Method, call: KernelCall) -> str:
    return "/".join(["v1", "|".join(_tensors(method, call))]).removesuffix("/")


def _tensors(method: Method, call: KernelCall) -> Iterable[str]:
    for index in call.args:
        value = method.values[index]
        if isinstance(value, TensorList):
            value = next((method.values[item] for item in value.items if item is not None), None)
        if isinstance(value, Tensor):
            yield f"{_SCALAR_TYPES[value.kind]};{','.join(map(str, value.dim_order))}"


def _sorted(keys: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(of_name)) for name, of_name in sorted(keys.items())}
