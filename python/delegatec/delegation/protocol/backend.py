# SPDX-License-Identifier: Apache-2.0
"""The base class of backends, their options and results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

from delegatec.delegation.blobs.blob_graph import BlobGraph
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.estimates import Estimates
from delegatec.delegation.protocol.executor import ReferenceExecutor
from delegatec.delegation.protocol.mapping import DebugHandleMap
from delegatec.delegation.protocol.memory import DelegateMemory
from delegatec.delegation.protocol.partitioner import Partitioner
from delegatec.delegation.protocol.parts import Part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics.notes import Note
from delegatec.edge.passes.pass_manager import Pass

OptionValue = str | tuple[str, ...]
"""The value of an option: a string; a tuple of strings for a list."""


@dataclass(frozen=True)
class OptionSpec:
    """An option that a user may set for a backend.

    Attributes:
        values: the allowed strings; any if empty. Of a file, names that stand for one.
        default: its value if it is not set. A tuple makes it a list of strings.
        doc: one sentence for the user.
        is_file: whether its value is the path of a file that the backend reads; manifests record its digest.
        needs: another option and its value, without which only the default of this one has an effect; empty
            if there is none.
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
        is_separate: whether it does not share its location in the file with equal data under other keys. A
            runtime that identifies data by its address requires this: in memory, equal locations are equal
            addresses.

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
        notes: for the user; the `operand` of one is the position of an input of the partition.
        inline: whether the blob must be inside the program's FlatBuffer, because the runtime reads it after
            it has loaded the delegate. It may free a blob in a separate segment.
    """

    blob: list[Part]
    debug_handle_map: DebugHandleMap = field(default_factory=dict)
    named_data: Mapping[str, NamedData] = field(default_factory=dict)
    constant_names: Mapping[int, str] = field(default_factory=dict)
    estimates: Estimates | None = None
    inline: bool = False
    notes: Sequence[Note] = ()


class Backend(ABC):
    """A delegate's compiler. It is stateless: one instance serves many programs, in any order.

    A subclass sets `id` and `name`, and implements `partitioner`, `preprocess` and `reference`; all other
    members have a default.

    Attributes:
        id: its id in the runtime, such as "MPSBackend".
        name: its name for users, such as "mps".
        options: name of each option -> its spec.
        blob_suffix: the end of the name of a file with a blob, with its dot.
    """

    id: str = ""
    name: str = ""
    options: Mapping[str, OptionSpec] = {}
    blob_suffix: str = ".blob"

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """Returns the settings for a user's options; none by default.

        Args:
            options: name -> `OptionValue`, for some of `self.options`; the others have their default.

        Raises:
            DelegatecError: DC402 for every unknown option and every invalid value.
        """
        return []

    def preserved_operators(self) -> frozenset[OpOverload]:
        """Returns composite operators that must not be decomposed before the partitioner."""
        return frozenset()

    @abstractmethod
    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> Partitioner:
        """Returns the partitioner for these settings."""

    def boundary_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Returns the dtype in which delegates exchange inputs and outputs of a dtype of the program.

        It supports `aten._to_copy` between the two: the delegate begins and ends with one.
        """
        return dtype

    def orders_boundary(self, value: torch.Tensor) -> bool:
        """Whether delegates exchange a fake channels-last tensor with its dimensions in memory order.

        The program does not copy such inputs and outputs of the method. The delegate begins and ends with
        permutations, which the backend's passes move or remove. Its runtime exchanges the bytes of the
        program's tensors: these may have the shape of the method's, and a dim order, if they are in the
        caller's memory.
        """
        return False

    def keeps(self, initial: torch.Tensor) -> bool:
        """Whether a delegate can keep a buffer with this initial value, instead of exchanging it at each run.

        The private program of such a partition has the buffer as a constant, its initial value, and returns
        the new value as a mutation of it.
        """
        return False

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """Returns passes that edit a partition before `preprocess`, in order; none by default.

        They run on a private program extracted from the partition: its inputs and outputs are the delegate's,
        in order, and keep their dtypes and shapes; everything else may change. `preprocess` receives a view
        of the result. The verifier runs after each.

        Args:
            view: the partition in its own program, which must not be edited.
            compile_specs: the settings.
        """
        return ()

    @abstractmethod
    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compiles one partition.

        Args:
            view: the partition; its program must not be edited. For a backend with passes, the complete
                private program after these.
            compile_specs: the settings.

        Raises:
            DelegatecError: DC4xx, with all problems of the partition.
        """

    @abstractmethod
    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """Returns an executor of a blob on the host, from the blob and its settings alone."""

    def graph(self, blob: memoryview) -> BlobGraph | None:
        """Returns the graph of a blob, which `delegatec inspect` prints and the report draws.

        It is None, as by default, for formats that are not graphs.

        Raises:
            DelegatecError: DC407, the blob is damaged, or another backend's.
        """
        return None

    def memory(self, blob: memoryview) -> DelegateMemory:
        """Returns the memory that the runtime's backend takes of an app's allocators; unknown by default.

        Raises:
            DelegatecError: DC407, the blob is damaged, or another backend's.
        """
        return DelegateMemory()

    def profiled_operations(
        self, blob: memoryview, events: Sequence[str | int]
    ) -> Sequence[str | int | None]:
        """Returns the operation that each event of one run of a delegate is of.

        Args:
            blob: the delegate's blob.
            events: what the runtime calls each operation that it timed, in order: names or numbers. By
                default, these are identifiers of the debug map.

        Returns:
            Identifiers of the debug map; None for what the debug map lacks.

        Raises:
            DelegatecError: DC407, the blob is damaged, or another backend's.
        """
        return events

    def describe(self, blob: memoryview) -> str:
        """Returns the text that `delegatec inspect` prints of a blob without a graph; none by default.

        Raises:
            DelegatecError: DC407, the blob is damaged, or another backend's.
        """
        return ""
