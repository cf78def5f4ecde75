# SPDX-License-Identifier: Apache-2.0
"""Tasks for `Pristine`: calls of the user's module in eager mode."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from delegatec.diagnostics.exceptions import exception_text
from delegatec.diagnostics.quiet import quiet_logs
from delegatec.frontend.eager.chance import Clocks, other_chance
from delegatec.frontend.eager.state import attributes_of, bits, everything_of, tensors_of
from delegatec.frontend.method import Method


@dataclass(frozen=True)
class Subject:
    """The subject of the tasks.

    Attributes:
        module: the module.
        methods: its methods; their examples have the containers that its functions take.
        clocks: the clocks of this process.
    """

    module: torch.nn.Module
    methods: Mapping[str, Method]
    clocks: Clocks


@dataclass(frozen=True)
class Call:
    """A call to make.

    Attributes:
        method: name of the method.
        args: positional arguments, in plain containers.
        kwargs: keyword arguments, likewise.
        seed: seed of torch's random numbers when the call begins; None to draw on from the last call.
    """

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    seed: int | None = None


@dataclass(frozen=True)
class Returned:
    """The result of a call.

    Attributes:
        outputs: the leaves of the result with their paths; `Opaque` for values that are neither tensors nor
            plain.
        written: position of an input, flattened, that the call wrote to -> its value after the call.
        error: text of the exception that the call raised instead; "" for none.
    """

    outputs: tuple[tuple[str, Any], ...] = ()
    written: dict[int, torch.Tensor] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Opaque:
    """A value of another type than a program can return."""

    kind: str


@dataclass(frozen=True)
class Run:
    """Calls in a row.

    Attributes:
        returned: the result of each; the first that raised an exception is the last.
        touched: names of plain attributes of the module that the first call changed.
        changed: names of those that later calls changed.
        replaced: names of tensors outside of buffers in whose place the calls put others.
    """

    returned: list[Returned]
    touched: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


def run_calls(subject: Subject, calls: Sequence[Call], has_other_chance: bool) -> Run:
    """Makes calls in a row.

    Args:
        subject: the module.
        calls: the calls.
        has_other_chance: whether random numbers and the clock differ from the original process.
    """
    if has_other_chance:
        other_chance(subject.clocks)
    run = Run([])
    states, tensors = [attributes_of(subject.module)], tensors_of(subject.module)
    for call in calls:
        run.returned.append(_run(subject, call))
        if run.returned[-1].error:
            return run
        states.append(attributes_of(subject.module))
    run.touched.extend(states[0].changed(states[1]))
    run.changed.extend(states[1].changed(states[-1]))
    after = tensors_of(subject.module)
    run.replaced.extend(name for name in tensors if after.get(name) is not tensors[name])
    return run


def other_tensors(subject: Subject, calls: Sequence[Call]) -> list[str]:
    """Makes calls in a row, and the last one with NaN; returns the names of tensors that they replace.

    Of a tensor with the same values as before, NaN shows whether it depends on inputs: a sum with a small one
    may be equal. A table that has grown has another shape, and is not among them.
    """
    before = tensors_of(subject.module)
    *_, last = calls
    args, kwargs = pytree.tree_map(_not_a_number, (last.args, last.kwargs))
    for call in (*calls, Call(last.method, args, kwargs, last.seed)):
        if _run(subject, call).error:
            break
    after = tensors_of(subject.module)
    return [name for name, tensor in before.items() if _is_other(tensor, after.get(name))]


def _not_a_number(leaf: Any) -> Any:
    is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    return torch.full_like(leaf, torch.nan) if is_float else leaf


def _is_other(tensor: torch.Tensor, other: torch.Tensor | None) -> bool:
    if other is None or other is tensor or (other.dtype, other.shape) != (tensor.dtype, tensor.shape):
        return False
    return not same_bits(tensor, other)


def counted_calls(subject: Subject, call: Call) -> list[str]:
    """Makes one call twice; returns the names of plain attributes that the second one changes."""
    _run(subject, call)
    state = attributes_of(subject.module)
    _run(subject, call)
    return state.changed(attributes_of(subject.module))


def changed_state(subject: Subject, calls: Sequence[Call]) -> list[str]:
    """Makes calls in a row; returns the names of the values that they change, outside of buffers."""
    before = everything_of(subject.module)
    for call in calls:
        if _run(subject, call).error:
            break
    return before.changed(everything_of(subject.module))


def _run(subject: Subject, call: Call) -> Returned:
    method = subject.methods[call.method]
    example = (method.example_inputs, dict(method.example_kwargs or {}))
    args = _in_containers(example[0], call.args)
    kwargs = {name: _in_containers(example[1][name], value) for name, value in call.kwargs.items()}
    leaves = pytree.tree_leaves((args, kwargs))
    before = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    if call.seed is not None:
        torch.manual_seed(call.seed)
    try:
        with warnings.catch_warnings(), quiet_logs(), torch.no_grad():
            warnings.simplefilter("ignore")
            result = method.of(subject.module)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - of user code
        return Returned(error=exception_text(error))
    outputs = tuple(
        (pytree.keystr(path), _plain(leaf)) for path, leaf in pytree.tree_flatten_with_path(result)[0]
    )
    written = {
        index: after.detach().clone()
        for index, (old, after) in enumerate(zip(before, leaves, strict=True))
        if isinstance(after, torch.Tensor) and not same_bits(old, after)
    }
    return Returned(outputs, written)


def _in_containers(example: Any, plain: Any) -> Any:
    """Returns a value in containers of the user's types, which programs and other processes do not know."""
    return pytree.tree_unflatten(pytree.tree_leaves(plain), pytree.tree_structure(example))


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors of one dtype have the same shape and bits."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return torch.equal(bits(first), bits(second))


def _plain(leaf: Any) -> Any:
    """Returns a copy of a leaf: later calls may write to a tensor that is state."""
    if isinstance(leaf, torch.Tensor):
        return torch.Tensor.clone(leaf.detach()).resolve_conj().resolve_neg()
    return leaf if isinstance(leaf, (bool, int, float, str, type(None))) else Opaque(type(leaf).__name__)
