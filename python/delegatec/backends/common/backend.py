# SPDX-License-Identifier: Apache-2.0
"""The parts of a `Backend` that follow from an operator table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from torch._ops import OpOverload

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.common.settings import SettingsCodec
from delegatec.backends.common.table import OperatorTable
from delegatec.delegation import Backend, CompileSpec, DelegationSpec, PartitionView, resolve_options
from delegatec.edge.legalize.rule import Rewrites, preserved
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram

SettingsT = TypeVar("SettingsT")


class TableBackend(Backend, Generic[SettingsT]):
    """A backend without `preprocess`, `reference` and `graph`, which depend on its format.

    Args:
        name: its name for users.
        codec: of its settings.
        table: the supported calls.
        rewrites: for other calls.
        prepare: returns passes over a private program that run before it is legalized.
        fuse: passes that run after these, on a program whose calls are legal or can be legalized separately.
    """

    partitioner_type: ClassVar[type[TablePartitioner[Any]]] = TablePartitioner
    target_type: ClassVar[type[TableTarget[Any]]] = TableTarget

    def __init__(
        self,
        name: str,
        codec: SettingsCodec[SettingsT],
        table: OperatorTable[Any, SettingsT],
        rewrites: Rewrites,
        prepare: Callable[[SettingsT], Sequence[Pass]] = lambda _: (),
        fuse: Sequence[Pass] = (),
    ) -> None:
        self.id = codec.backend
        self.name = name
        self.options = codec.options
        self.settings = codec.decode
        self._encode = codec.encode
        self._preserved = table.preserved() | preserved(rewrites)
        self._target = cache(lambda settings: self.target_type(table, rewrites, settings))
        self._prepare = prepare
        self._fuse = fuse

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """See `Backend.compile_specs`."""
        return self._encode(resolve_options(self.name, self.options, options))

    def preserved_operators(self) -> frozenset[OpOverload]:
        """Returns the composites with a lowering that is better than their decomposition."""
        return self._preserved

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> TablePartitioner[SettingsT]:
        """See `Backend.partitioner`."""
        settings = self.settings(compile_specs)
        delegation = DelegationSpec(self.id, tuple(compile_specs))
        return self.partitioner_type(self._target(settings), delegation, self._prepare(settings))

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """See `Backend.passes`. A program that needs neither preparation nor rewrites has none."""
        settings = self.settings(compile_specs)
        target, prepare = self._target(settings), (*self._prepare(settings), *self._fuse)

        def legalize(program: EdgeProgram) -> bool:
            return target.legalize(program, view.facts_in(program))

        needs_edits = bool(prepare or view.bodies) or target.needs_rewrites(view.nodes, view.facts)
        return [*prepare, legalize] if needs_edits else []
