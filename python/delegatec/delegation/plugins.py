# SPDX-License-Identifier: Apache-2.0
"""Calls of a backend's members. Exceptions and invalid results of a plug-in are reported as its fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

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
)
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.estimates import Estimates
from delegatec.delegation.protocol.executor import ReferenceExecutor
from delegatec.delegation.protocol.mapping import check_mapping
from delegatec.delegation.protocol.memory import DelegateMemory
from delegatec.delegation.protocol.options import resolve_options
from delegatec.delegation.protocol.partitioner import Partitioner
from delegatec.delegation.protocol.parts import Part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics.notes import Note

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


def call(
    method: Callable[Concatenate[Backend, _P], _Result],
    backend: Backend,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _Result:
    """Calls a method of a backend and checks the result.

    Args:
        method: the method of the base class, such as `Backend.passes`.
        backend: the backend.
        *args: the other arguments of the method.
        **kwargs: its keyword arguments.

    Raises:
        DelegatecError: DC410, the plug-in raises something other than a DelegatecError; DC411, the result is
            not valid.
    """
    name = method.__name__
    result: _Result = _checked(backend, name, lambda: getattr(backend, name)(*args, **kwargs))
    return result


def option_values(backend: Backend, given: Mapping[str, object]) -> dict[str, OptionValue]:
    """Returns the value of each option of a backend; see `resolve_options`."""
    declared = _checked(backend, "options", lambda: backend.options)
    with attribute_errors(backend, f"options of backend {backend.id}"):
        return resolve_options(backend.name, declared, given)


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
    result = call(Backend.preprocess, backend, view, specs)
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
    found = call(Backend.reference, backend, blob, specs)
    with attribute_errors(backend, f"reference of backend {backend.id}"):
        found.load_named_data(named_data)
        return CheckedExecutor(backend, found)


class CheckedExecutor(ReferenceExecutor):
    """A reference executor, under the name of its backend.

    Args:
        backend: the backend.
        found: the executor itself.

    Raises:
        DelegatecError: DC411, `num_inputs` is not valid.
    """

    def __init__(self, backend: Backend, found: ReferenceExecutor) -> None:
        self._backend = backend
        self.found = found
        self.num_inputs = found.num_inputs
        self.converts_outputs = found.converts_outputs
        self.lacks_scalars = found.lacks_scalars
        self.reads_blob = found.reads_blob
        if self.num_inputs is not None and (type(self.num_inputs) is not int or self.num_inputs < 0):
            what = f"num_inputs of the reference executor of backend {backend.id}"
            raise wrong_result(what, repr(self.num_inputs), "an int of at least 0, or None")

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
        outputs: list[torch.Tensor] = _checked(
            self._backend, "the reference executor", lambda: self.found(inputs)
        )
        return outputs


def description(backend: Backend, blob: memoryview, labels: BlobLabels | None = None) -> str:
    """Returns the contents of a blob as text; empty if the backend cannot describe it."""
    found = call(Backend.graph, backend, blob)
    return call(Backend.describe, backend, blob) if found is None else format_blob_graph(found, labels)


def _forms(result: PreprocessResult) -> Iterator[tuple[str, bool, str]]:
    """Yields the name of each field, whether it is valid, and the expected form."""
    yield "blob", _is_list_of(result.blob, Part), "a list of bytes, memoryviews and ComputedBytes"
    handles = _is_dict_of(result.debug_handle_map, (tuple, list))
    yield "debug_handle_map", handles, "the result of DelegateMappingBuilder"
    yield "named_data", _is_dict_of(result.named_data, NamedData), "a dict of NamedData"
    yield "constant_names", _is_dict_of(result.constant_names, str), "a dict of str"
    yield "estimates", isinstance(result.estimates, Estimates | None), "Estimates"
    yield "inline", isinstance(result.inline, bool), "a bool"
    yield "notes", _is_list_of(result.notes, Note), "a list of Note"


def _all(items: Iterable[object], kind: Any) -> bool:
    return all(isinstance(item, kind) for item in items)


def _is_list_of(value: object, kind: Any) -> bool:
    return isinstance(value, (list, tuple)) and _all(value, kind)


def _is_dict_of(value: object, kind: Any) -> bool:
    return isinstance(value, Mapping) and _all(value.values(), kind)


def _is(kind: Any) -> Callable[[object], bool]:
    return lambda found: isinstance(found, kind)


_OVERLOADS: Final = "a set of overloads of operators, such as torch.ops.aten.silu.default"
_RESULTS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "boundary_dtype": (_is(torch.dtype), "a dtype"),
    "compile_specs": (lambda found: _is_list_of(found, CompileSpec), "a list of CompileSpec"),
    "describe": (_is(str), "a string"),
    "graph": (_is(BlobGraph | None), "a delegatec.delegation.BlobGraph"),
    "keeps": (_is(bool), "a bool"),
    "memory": (_is(DelegateMemory), "a delegatec.delegation.DelegateMemory"),
    "options": (lambda found: _is_dict_of(found, OptionSpec), "a dict from names to OptionSpec"),
    "orders_boundary": (_is(bool), "a bool"),
    "partitioner": (_is(Partitioner), "a delegatec.delegation.Partitioner"),
    "passes": (
        lambda found: isinstance(found, (list, tuple)) and all(map(callable, found)),
        "a list of functions that edit an edge program",
    ),
    "preprocess": (_is(PreprocessResult), "a delegatec.delegation.PreprocessResult"),
    "preserved_operators": (
        lambda found: isinstance(found, (set, frozenset)) and _all(found, OpOverload),
        _OVERLOADS,
    ),
    "profiled_operations": (
        lambda found: _is_list_of(found, str | int | None),
        "a list of identifiers of the debug map",
    ),
    "reference": (_is(ReferenceExecutor), "a delegatec.delegation.ReferenceExecutor"),
    "the reference executor": (lambda found: _is_list_of(found, torch.Tensor), "a list of tensors"),
}
"""Member -> whether a result is valid, and the description of valid results."""


def _checked(backend: Backend, member: str, run: Callable[[], Any]) -> Any:
    """Runs a member of a backend and checks the result; see `call`."""
    what = f"{member} of backend {backend.id}"
    is_valid, expected = _RESULTS[member]
    with attribute_errors(backend, what):
        result = run()
        valid = is_valid(result)
    if not valid:
        raise wrong_result(what, kind_of(result), expected)
    return result
