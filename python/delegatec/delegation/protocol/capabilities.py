# SPDX-License-Identifier: Apache-2.0
"""Optional parts of the protocol: an object with the members of one of these classes has the capability."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch._ops import HigherOrderOperator
from torch.fx import Node

from delegatec.delegation.blobs.blob_graph import BlobGraph
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.partitioner import Rejection
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram


@runtime_checkable
class HasPasses(Protocol):
    """A backend that edits its partitions before it compiles them."""

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """Returns passes over a partition, in order; empty if it needs no edits.

        They run on a private program extracted from the partition: its inputs and outputs are the delegate's,
        in order, and keep their dtypes and shapes; everything else may change. `preprocess` receives a view
        of the result. The verifier runs after each.

        Args:
            view: the partition in its own program, which must not be edited.
            compile_specs: the settings.
        """
        ...


@runtime_checkable
class KeepsState(Protocol):
    """A backend whose delegates may keep buffers between runs, instead of receiving and returning them.

    The private program of such a partition has the buffer as a constant, its initial value, and returns the
    new value as a mutation of it.
    """

    def keeps(self, initial: torch.Tensor) -> bool:
        """Whether a delegate can keep a buffer with this initial value."""
        ...


@runtime_checkable
class ConvertsBoundary(Protocol):
    """A backend whose delegates exchange some dtypes as others, to which the program converts them."""

    def boundary_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Returns the dtype of inputs and outputs that have a dtype in the program.

        It supports `aten._to_copy` between the two: the delegate begins and ends with one.
        """
        ...


@runtime_checkable
class OrdersBoundary(Protocol):
    """A backend whose delegates exchange channels-last values with their dimensions in the order of memory.

    The program does not copy such inputs and outputs of the method. The delegate begins and ends with
    permutations, which the backend's passes move or remove. Its runtime exchanges the bytes of the program's
    tensors: these may have the shape of the method's, and a dim order, if they are in the caller's memory.
    """

    def orders_boundary(self, value: torch.Tensor) -> bool:
        """Whether delegates should exchange a fake tensor that is channels-last in this order."""
        ...


@runtime_checkable
class HasGraph(Protocol):
    """A backend whose blobs hold a graph, which `delegatec inspect` prints and the report draws."""

    def graph(self, blob: memoryview) -> BlobGraph:
        """Returns the graph of a blob.

        Raises:
            DelegatecError: DC407, the blob is damaged, or another backend's.
        """
        ...


@runtime_checkable
class HasSuffix(Protocol):
    """A backend whose blobs are files of a kind that tools read."""

    @property
    def blob_suffix(self) -> str:
        """The end of such a file's name, with its dot."""
        ...


@runtime_checkable
class HasDescription(Protocol):
    """A backend that describes its blobs to `delegatec inspect` as text, for formats that are not graphs."""

    def describe(self, blob: memoryview) -> str:
        """Returns the description of a blob.

        Raises:
            DelegatecError: DC407, the blob is damaged, or another backend's.
        """
        ...


@runtime_checkable
class HasWorth(Protocol):
    """A partitioner that rejects supported nodes if they are not worth the call of a delegate."""

    def is_worthwhile(self, nodes: Sequence[Node]) -> bool:
        """Whether connected nodes are worth a call; used when a user's rules split a group."""
        ...


@runtime_checkable
class HasBoundary(Protocol):
    """A partitioner that supports some nodes only together with nodes that they are connected to."""

    def misplaced(self, program: EdgeProgram, nodes: Sequence[Node]) -> Sequence[Rejection]:
        """Returns reasons for nodes of a connected group that cannot be in it, as another one is not.

        Args:
            program: of the nodes.
            nodes: the group.
        """
        ...


@runtime_checkable
class RunsControlFlow(Protocol):
    """A partitioner whose groups may contain calls of control flow.

    The delegate runs their bodies as well, which the partitioner has checked. Otherwise, bodies are
    partitioned separately.
    """

    @property
    def control_flow(self) -> Collection[HigherOrderOperator]:
        """The operators, such as `torch.ops.higher_order.cond`."""
        ...


@runtime_checkable
class PreparesPrograms(Protocol):
    """A partitioner that rewrites a program before it partitions it, so that more of it can be delegated."""

    @property
    def preparation(self) -> Sequence[Pass]:
        """Passes over the program and its bodies; what these compute does not change."""
        ...


@runtime_checkable
class HasNumInputs(Protocol):
    """A reference executor with a known number of inputs.

    A program does not store which of a delegate's arguments are inputs. Without this capability it is
    inferred from the values written before the call; if several numbers are possible, from which of them
    leaves one argument for each output.
    """

    @property
    def num_inputs(self) -> int:
        """Number of inputs of the blob."""
        ...


@runtime_checkable
class ConvertsOutputs(Protocol):
    """A reference executor of a runtime that converts outputs to the dtypes of the caller's tensors.

    Its results may have another dtype, such as int32 for int64, which the blob does not know.
    """

    @property
    def converts_outputs(self) -> bool:
        """Whether it does."""
        ...


@runtime_checkable
class LacksScalars(Protocol):
    """A reference executor of a runtime whose tensors have at least one dimension.

    Its result is of shape [1] if the program's tensor has no dimensions.
    """

    @property
    def lacks_scalars(self) -> bool:
        """Whether it is."""
        ...


@runtime_checkable
class ReadsBlob(Protocol):
    """A reference executor that knows whether its runtime reads the blob after it has loaded the delegate."""

    @property
    def reads_blob(self) -> bool:
        """Whether it does: programs must store the blob inline then, see `PreprocessResult.inline`."""
        ...


@runtime_checkable
class HasNamedData(Protocol):
    """A reference executor that needs data stored next to the blobs, see `PreprocessResult.named_data`."""

    def load_named_data(self, named_data: Mapping[str, memoryview]) -> None:
        """Receives the named data of all delegates of the program, once, before the first run."""
        ...
