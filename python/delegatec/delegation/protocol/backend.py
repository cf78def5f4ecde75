# SPDX-License-Identifier: Apache-2.0
"""The protocol of a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch._ops import OpOverload

from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.estimates import Estimates
from delegatec.delegation.protocol.mapping import DebugHandleMap
from delegatec.delegation.protocol.partitioner import Partitioner
from delegatec.delegation.protocol.parts import Part
from delegatec.delegation.protocol.view import PartitionView

ReferenceExecutor = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
"""Runs a blob on the host: inputs in order -> outputs in order."""


OptionValue = str | tuple[str, ...]
"""The value of an option: a string; a tuple of strings for a list."""


@dataclass(frozen=True)
class OptionSpec:
    """An option that a user may set for a backend.

    Attributes:
        values: the allowed strings; any if empty.
        default: its value if it is not set. A tuple makes it a list of strings.
        doc: one sentence for the user.
        is_file: whether its value is the path of a file that the backend reads; manifests record its digest.
        needs: another option and its value without which only the default of this one has an effect; empty if
            there is none.
    """

    values: tuple[str, ...]
    default: OptionValue
    doc: str
    is_file: bool = False
    needs: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether its value is a list of strings."""
        return not isinstance(self.default, str)


@dataclass(frozen=True)
class NamedData:
    """Bytes that a delegate finds by name when it is loaded.

    Attributes:
        data: a part, as in a blob: a memoryview of a constant's storage is copied once, into the file, and
            `ComputedBytes` are computed while it is written.
        alignment: in bytes, in the file; a power of two.
        is_separate: whether it shares its place in the file with no equal data under other keys. A runtime
            that knows data by its address requires this: in memory, equal places are equal addresses.

    Raises:
        TypeError: the data has another type.
        ValueError: the alignment is not a power of two.
    """

    data: Part
    alignment: int = 16
    is_separate: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.data, Part):
            kind = type(self.data).__name__
            raise TypeError(f"named data is a {kind}, not bytes, a memoryview or ComputedBytes")
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise ValueError(f"the alignment {self.alignment} is not a power of two")


@dataclass
class PreprocessResult:
    """A compiled partition.

    Attributes:
        blob: parts whose concatenation the runtime receives. Unconverted weights are memoryviews of the
            constants' storage, so that they are copied once, into the file; converted ones are
            `ComputedBytes`.
        debug_handle_map: the backend's id of an instruction -> debug handles of the nodes it computes;
            the result of `DelegateMappingBuilder`. Empty if the runtime does not report instructions.
        constant_names: id of a constant in `Backend.graph` -> name of its placeholder; for texts and
            drawings only, which then show its name in the model.
        named_data: key -> data stored next to the blob. Data under one key is stored once for all
            delegates of all methods, and must be the same; a hash of the content is a good key.
        estimates: of its speed and memory, for the manifest and the report; None if they are unknown.
        inline: whether the blob must be inside the program's FlatBuffer, because the runtime reads it after
            it has loaded the delegate. It may free a blob in a separate segment.
    """

    blob: list[Part]
    debug_handle_map: DebugHandleMap = field(default_factory=dict)
    named_data: Mapping[str, NamedData] = field(default_factory=dict)
    constant_names: Mapping[int, str] = field(default_factory=dict)
    estimates: Estimates | None = None
    inline: bool = False


@runtime_checkable
class Backend(Protocol):
    """A delegate's compiler. Stateless: one instance serves many programs, in any order.

    Optional members are in `delegation.protocol.capabilities`.
    """

    @property
    def id(self) -> str:
        """Its id in the runtime, such as "MPSBackend"."""
        ...

    @property
    def name(self) -> str:
        """Its name for users, such as "mps"."""
        ...

    @property
    def options(self) -> Mapping[str, OptionSpec]:
        """Name of each option -> its spec."""
        ...

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """Returns the settings for a user's options.

        Args:
            options: name -> `OptionValue`, for some of `self.options`; the others have their default.

        Raises:
            DelegatecError: DC402 for every unknown option and every invalid value.
        """
        ...

    def preserved_operators(self) -> frozenset[OpOverload]:
        """Returns composite operators that must not be decomposed before the partitioner."""
        ...

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> Partitioner:
        """Returns the partitioner for these settings."""
        ...

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compiles one partition.

        Args:
            view: the partition; its program must not be edited. For a backend that `HasPasses`, the complete
                private program after its passes.
            compile_specs: the settings.

        Raises:
            DelegatecError: DC4xx, with all problems of the partition.
        """
        ...

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """Returns an executor of a blob on the host, from the blob and its settings alone.

        Optional members, such as the number of inputs, are in `delegation.protocol.capabilities`.
        """
        ...
