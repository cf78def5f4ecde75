# SPDX-License-Identifier: Apache-2.0
"""The sources of a manifest besides the file: this package does not import the lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from delegatec.delegation import DelegationReport, OptionValue
from delegatec.diagnostics.notes import Note
from delegatec.edge.program import EdgeProgram
from delegatec.program.emitted import EmittedProgram


class LoweredModel(Protocol):
    """The result of `delegatec.lowering.lower`; see `Program` there."""

    @property
    def emitted(self) -> EmittedProgram: ...

    @property
    def programs(self) -> Mapping[str, EdgeProgram]: ...

    @property
    def reports(self) -> Mapping[str, DelegationReport]: ...

    @property
    def backend(self) -> str: ...

    @property
    def backends(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def options(self) -> Mapping[str, OptionValue]: ...

    @property
    def notes(self) -> Mapping[str, Sequence[Note]]: ...
