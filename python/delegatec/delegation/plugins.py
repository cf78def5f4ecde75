# SPDX-License-Identifier: Apache-2.0
"""Calls of a backend's members. Exceptions and invalid results of a plug-in are reported as its fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload

from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobLabels
from delegatec.delegation.blobs.blob_text import format_blob_graph
from delegatec.delegation.faults import attribute_errors, kind_of, wrong_result
from delegatec.delegation.protocol.backend import (
    Backend,
    NamedData,
    OptionSpec,
    OptionValue,
    PreprocessResult,
    ReferenceExecutor,
)
from delegatec.delegation.protocol.capabilities import (
    ConvertsBoundary,
    ConvertsOutputs,
    HasDescription,
    HasGraph,
    HasNamedData,
    HasNumInputs,
    HasPasses,
    KeepsState,
    LacksScalars,
    OrdersBoundary,
    ReadsBlob,
)
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.estimates import Estimates
from delegatec.delegation.protocol.mapping import check_mapping
from delegatec.delegation.protocol.options import resolve_options
from delegatec.delegation.protocol.partitioner import Partitioner, is_partitioner
from delegatec.delegation.protocol.parts import Part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.passes.pass_manager import Pass

_Result = TypeVar("_Result")


def option_values(backend: Backend, given: Mapping[str, object]) -> dict[str, OptionValue]:
    """Returns the value of each option of a backend; see `resolve_options`."""
    declared = _call_member(
        backend,
        "options",
        lambda: backend.options,
        lambda found: _is_dict_of(found, OptionSpec),
        "a dict from names to OptionSpec",
    )
    with attribute_errors(backend, f"options of backend {backend.id}"):
        return resolve_options(backend.name, declared, given)


def compile_specs(backend: Backend, options: Mapping[str, Any]) -> tuple[CompileSpec, ...]:
    """See `Backend.compile_specs`."""
    return _call_member(
        backend,
        "compile_specs",
        lambda: tuple(backend.compile_specs(options)),
        lambda found: _all(found, CompileSpec),
        "a list of CompileSpec",
    )


def preserved_operators(backend: Backend) -> frozenset[OpOverload]:
    """See `Backend.preserved_operators`."""
    return _call_member(
        backend,
        "preserved_operators",
        lambda: frozenset(backend.preserved_operators()),
        lambda found: _all(found, OpOverload),
        "a set of overloads of operators, such as torch.ops.aten.silu.default",
    )


def partitioner(backend: Backend, specs: Sequence[CompileSpec]) -> Partitioner:
    """See `Backend.partitioner`."""
    return _call_member(
        backend,
        "partitioner",
        lambda: backend.partitioner(specs),
        is_partitioner,
        "an object with a method partition(program)",
    )


def passes(backend: Backend, view: PartitionView, specs: Sequence[CompileSpec]) -> Sequence[Pass]:
    """See `HasPasses.passes`; none for a backend without passes."""
    if not isinstance(backend, HasPasses):
        return ()
    return _call_member(
        backend,
        "passes",
        lambda: tuple(backend.passes(view, specs)),
        lambda found: all(map(callable, found)),
        "a list of functions that edit an edge program",
    )


def keeps(backend: Backend, initial: torch.Tensor) -> bool:
    """Whether a delegate can keep a buffer with an initial value; see `KeepsState`."""
    if not isinstance(backend, KeepsState):
        return False
    return _call_member(
        backend, "keeps", lambda: backend.keeps(initial), lambda found: isinstance(found, bool), "a bool"
    )


def boundary_dtype(backend: Backend, dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype of inputs and outputs that have a dtype in the program; see `ConvertsBoundary`."""
    if not isinstance(backend, ConvertsBoundary):
        return dtype
    return _call_member(
        backend,
        "boundary_dtype",
        lambda: backend.boundary_dtype(dtype),
        lambda found: isinstance(found, torch.dtype),
        "a dtype",
    )


def orders_boundary(backend: Backend, value: torch.Tensor) -> bool:
    """Whether delegates exchange a channels-last value in the order of memory; see `OrdersBoundary`."""
    if not isinstance(backend, OrdersBoundary):
        return False
    return _call_member(
        backend,
        "orders_boundary",
        lambda: backend.orders_boundary(value),
        lambda found: isinstance(found, bool),
        "a bool",
    )


def preprocess(
    backend: Backend, view: PartitionView, specs: Sequence[CompileSpec], original: PartitionView
) -> PreprocessResult:
    """See `Backend.preprocess`.

    Args:
        backend: the backend.
        view: the partition that it compiles.
        specs: the settings.
        original: the partition before the backend's passes, to which the debug map refers.
    """
    result = _call_member(
        backend,
        "preprocess",
        lambda: backend.preprocess(view, specs),
        lambda found: isinstance(found, PreprocessResult),
        "a delegatec.delegation.PreprocessResult",
    )
    for name, holds, expected in _forms(result):
        if not holds:
            found = f"a PreprocessResult whose {name} is {kind_of(getattr(result, name))}"
            raise wrong_result(f"preprocess of backend {backend.id}", found, expected)
    check_mapping(result.debug_handle_map, original, backend.id)
    return result


def executor(
    backend: Backend, blob: memoryview, specs: Sequence[CompileSpec], named_data: Mapping[str, memoryview]
) -> CheckedExecutor:
    """See `Backend.reference`."""
    found = _call_member(
        backend,
        "reference",
        lambda: backend.reference(blob, specs),
        callable,
        "a function from inputs to outputs",
    )
    with attribute_errors(backend, f"reference of backend {backend.id}"):
        if isinstance(found, HasNamedData):
            found.load_named_data(named_data)
        num_inputs = found.num_inputs if isinstance(found, HasNumInputs) else None
    if num_inputs is not None and (type(num_inputs) is not int or num_inputs < 0):
        what = f"num_inputs of the reference executor of backend {backend.id}"
        raise wrong_result(what, repr(num_inputs), "a number of inputs")
    return CheckedExecutor(backend, found, num_inputs)


class CheckedExecutor:
    """A reference executor, under the name of its backend.

    Attributes:
        found: the executor itself.
        num_inputs: number of inputs of the blob; None if unknown.
        converts_outputs: whether its runtime converts outputs to the dtypes of the caller's tensors.
        lacks_scalars: whether its runtime stores 0-d tensors with the shape [1].
        reads_blob: whether its runtime reads the blob after it has loaded the delegate.
    """

    def __init__(self, backend: Backend, found: ReferenceExecutor, num_inputs: int | None) -> None:
        self._backend = backend
        self.found = found
        self.num_inputs = num_inputs
        self.converts_outputs = isinstance(found, ConvertsOutputs) and bool(found.converts_outputs)
        self.lacks_scalars = isinstance(found, LacksScalars) and bool(found.lacks_scalars)
        self.reads_blob = isinstance(found, ReadsBlob) and bool(found.reads_blob)

    def for_caller(self, output: torch.Tensor, dtype: torch.dtype, rank: int) -> torch.Tensor:
        """Returns an output as the runtime stores it in the caller's tensor.

        Args:
            output: of the executor.
            dtype: of the caller's tensor.
            rank: of the caller's tensor.
        """
        if self.lacks_scalars and rank == 0 and output.shape == (1,):
            output = output.reshape(())
        return output.to(dtype) if self.converts_outputs else output

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the blob."""
        return _call_member(
            self._backend,
            "the reference executor",
            lambda: self.found(inputs),
            lambda found: isinstance(found, (list, tuple)) and _all(found, torch.Tensor),
            "a list of tensors",
        )


def graph(backend: Backend, blob: memoryview) -> BlobGraph | None:
    """See `HasGraph.graph`; None for a backend without graphs."""
    if not isinstance(backend, HasGraph):
        return None
    return _call_member(
        backend,
        "graph",
        lambda: backend.graph(blob),
        lambda found: isinstance(found, BlobGraph),
        "a delegatec.delegation.BlobGraph",
    )


def description(backend: Backend, blob: memoryview, labels: BlobLabels | None = None) -> str:
    """Returns the contents of a blob as text; empty if the backend cannot describe it."""
    found = graph(backend, blob)
    if found is not None:
        return format_blob_graph(found, labels)
    if not isinstance(backend, HasDescription):
        return ""
    return _call_member(
        backend, "describe", lambda: backend.describe(blob), lambda text: isinstance(text, str), "a string"
    )


def _forms(result: PreprocessResult) -> Iterator[tuple[str, bool, str]]:
    """Yields the name of each field, whether it is valid, and the expected form."""
    parts = isinstance(result.blob, (list, tuple)) and _all(result.blob, Part)
    yield "blob", parts, "a list of bytes, memoryviews and ComputedBytes"
    handles = _is_dict_of(result.debug_handle_map, (tuple, list))
    yield "debug_handle_map", handles, "the result of DelegateMappingBuilder"
    yield "named_data", _is_dict_of(result.named_data, NamedData), "a dict of NamedData"
    yield "constant_names", _is_dict_of(result.constant_names, str), "a dict of str"
    yield "estimates", isinstance(result.estimates, Estimates | None), "Estimates"
    yield "inline", isinstance(result.inline, bool), "a bool"


def _all(items: Iterable[object], kind: Any) -> bool:
    return all(isinstance(item, kind) for item in items)


def _is_dict_of(value: object, kind: Any) -> bool:
    return isinstance(value, Mapping) and _all(value.values(), kind)


def _call_member(
    backend: Backend,
    member: str,
    call: Callable[[], _Result],
    is_valid: Callable[[_Result], bool],
    expected: str,
) -> _Result:
    """Calls a backend and checks the result.

    Raises:
        DelegatecError: DC410, the plug-in raises something other than a DelegatecError; DC411, the result is
            not valid.
    """
    what = f"{member} of backend {backend.id}"
    with attribute_errors(backend, what):
        result = call()
        valid = is_valid(result)
    if not valid:
        raise wrong_result(what, kind_of(result), expected)
    return result
