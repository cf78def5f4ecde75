# SPDX-License-Identifier: Apache-2.0
"""Weights that a program loads from a `.ptd`, with their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from delegatec.delegation import Part
from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.delegation.protocol.view import EXTERNAL
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import check_items
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.edge.program import EdgeProgram
from delegatec.edge.state import release, written_state
from delegatec.program.content import equal_bytes
from delegatec.program.scalar_type import SCALAR_TYPES

_NAMES: Final = (list, tuple, set, frozenset)


def weights_of(
    methods: Mapping[str, ExportedProgram], names: Collection[str] = ()
) -> dict[str, torch.Tensor]:
    """Returns the weights of a model that a `.ptd` stores: its original parameters and buffers.

    For a mutable buffer this is the initial state. Weights that are not row-major stay in the program, which
    stores a row-major copy.

    Args:
        methods: method name -> program; all of one model, so that names agree.
        names: those of some weights, as in `Model.external_weights`; empty for all.

    Returns:
        Fully qualified name -> tensor, in the order of the model. Tied weights are listed under all names.

    Raises:
        DelegatecError: DC415, one diagnostic for each name that is not one of a weight.
    """
    expected = "a dict of exported programs by method, as delegatec.export returns it"
    check_items("weights_of", "methods", methods, Mapping, ExportedProgram, expected)
    check_items("weights_of", "names", names, _NAMES, str, "a list of names")
    weights: dict[str, torch.Tensor] = {}
    dropped: set[str] = set()
    for program in methods.values():
        for spec in program.graph_signature.input_specs:
            if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER) or spec.target is None:
                continue
            name = spec.target
            tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
            is_plain = tensor.is_contiguous() and tensor.dtype in SCALAR_TYPES and tensor.numel() > 0
            if not is_plain or weights.setdefault(name, tensor).data_ptr() != tensor.data_ptr():
                dropped.add(name)
    weights = {name: tensor for name, tensor in weights.items() if name not in dropped}
    if not names:
        return weights
    expected = "names of dense parameters and buffers that are not empty"
    problems = [
        _not_external(name, "which is not a weight of the model", expected, did_you_mean(name, weights))
        for name in names
        if name not in weights
    ]
    if problems:
        raise DelegatecError(problems)
    # with those tied to them
    chosen = {_identity(weights[name], tuple(weights[name].shape)) for name in names}
    return {
        name: tensor for name, tensor in weights.items() if _identity(tensor, tuple(tensor.shape)) in chosen
    }


def external_weights_of(
    methods: Mapping[str, ExportedProgram], chosen: bool | Collection[str]
) -> ExternalWeights:
    """Returns the external weights of a program.

    Args:
        methods: method name -> program of the model.
        chosen: whether all weights are external; or the names of those that are inputs of delegates.

    Raises:
        DelegatecError: DC415, names that are not those of weights, or of weights that methods only read.
    """
    if isinstance(chosen, bool):
        return ExternalWeights(weights_of(methods) if chosen else {})
    weights = weights_of(methods, chosen) if chosen else {}
    written = written_state(methods.values()) if weights else ()
    read = {name for program in methods.values() for name in _read_weights(program)}
    expected = "names of weights that methods read, and none writes to"
    for reason, names in (
        ("a method of the model writes to", [name for name in chosen if name in written]),
        ("no method of the model reads", [name for name in chosen if name not in read]),
    ):
        if names:
            others = f" besides {len(names) - 1} others" if len(names) > 1 else ""
            raise DelegatecError([_not_external(names[0], f"which {reason}{others}", expected)])
    return ExternalWeights(weights, are_inputs=True)


def _read_weights(program: ExportedProgram) -> Iterator[str]:
    placeholders = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, placeholders, strict=True):
        if spec.target is not None and node.users:
            yield spec.target


def _not_external(name: str, reason: str, expected: str, help: str = "") -> Diagnostic:
    return Diagnostic("DC415", f'external_weights has "{name}", {reason}', expected=expected, help=help)


class ExternalWeights:
    """The weights of a `.ptd`, by memory.

    A constant of a program is external if it is identical to a weight: the same memory, dtype and shape.
    Constants derived from weights (folded, converted, reshaped) stay in the `.pte`: the runtime requires an
    external tensor to have the dtype and shape stored in the `.ptd`.

    Args:
        weights: fully qualified name -> weight, dense, row-major and not empty. The first of several names
            for the same memory becomes the key.
        are_inputs: whether delegates take them as inputs, since other `.ptd` files have other values; until
            `release_inputs`, programs then have them as state.

    Attributes:
        names: all names.
        inputs: the names of those that are inputs of delegates.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor], are_inputs: bool = False) -> None:
        self._keys: dict[tuple[int, torch.dtype, tuple[int, ...]], str] = {}
        for name, tensor in weights.items():
            self._keys.setdefault(_identity(tensor, tuple(tensor.shape)), name)
        self.names = frozenset(weights)
        self.inputs = self.names if are_inputs else frozenset()
        self._weights = weights
        self._used: dict[str, memoryview] = {}

    def __contains__(self, tensor: torch.Tensor) -> bool:
        """Whether a constant is one of them."""
        return _identity(tensor, tuple(tensor.shape)) in self._keys

    def key(self, tensor: torch.Tensor, sizes: tuple[int, ...]) -> str | None:
        """Returns the key of an external constant, and records its use; None for any other constant.

        Args:
            tensor: the constant, dense and row-major.
            sizes: its shape in the program.
        """
        key = self._keys.get(_identity(tensor, sizes))
        if key is not None:
            self._used[key] = tensor_bytes(tensor)
        return key

    def name(self, tensor: torch.Tensor) -> str | None:
        """Returns the key of an external constant; None for any other constant."""
        return self._keys.get(_identity(tensor, tuple(tensor.shape)))

    def reads(self, key: str, data: Part) -> bool:
        """Whether named data of a delegate is the weight of that name, whose use is recorded then."""
        weight = self._weights.get(key)
        if weight is None or not equal_bytes(tensor_bytes(weight), data):
            return False
        self._used[key] = tensor_bytes(weight)
        return True

    @property
    def used(self) -> dict[str, memoryview]:
        """Key -> bytes of each weight in use, in order of first use."""
        return self._used


def name_weights(program: EdgeProgram, external: ExternalWeights) -> None:
    """Notes the names of external weights at their placeholders, for delegates; see `external_name`."""
    for part in program.walk():
        for node in part.placeholders():
            tensor = part.constants.get(node.name)
            name = None if tensor is None else external.name(tensor)
            if tensor is not None and name is not None:
                node.meta[EXTERNAL] = name, tensor.data_ptr()


def release_inputs(programs: Iterable[EdgeProgram], external: ExternalWeights) -> None:
    """Makes constants of the external weights that are inputs of delegates: nothing reads values any more."""
    for program in programs:
        release(
            program, [name for name, target in program.names_in_model().items() if target in external.inputs]
        )


def _identity(tensor: torch.Tensor, sizes: tuple[int, ...]) -> tuple[int, torch.dtype, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.dtype, sizes
