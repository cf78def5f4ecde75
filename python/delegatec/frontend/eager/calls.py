# SPDX-License-Identifier: Apache-2.0
"""Tasks for `Pristine`: calls of the user's module in eager mode."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from delegatec.diagnostics.exceptions import exception_text
from delegatec.diagnostics.quiet import quiet_logs
from delegatec.frontend.eager.chance import other_chance
from delegatec.frontend.eager.state import attributes_of, everything_of


@dataclass(frozen=True)
class Call:
    """A call to make.

    Attributes:
        function: name of the module's attribute to call.
        args: positional arguments.
        kwargs: keyword arguments.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Returned:
    """What a call returned.

    Attributes:
        outputs: the leaves of the result with their paths; `Opaque` for what is no tensor or plain value.
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
        returned: what each returned; the first that raised an exception is the last.
        touched: names of plain attributes of the module that the first call changed.
        changed: names of those that later calls changed.
    """

    returned: list[Returned]
    touched: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def run_calls(module: torch.nn.Module, calls: Sequence[Call], has_other_chance: bool) -> Run:
    """Makes calls in a row.

    Args:
        module: the module.
        calls: the calls.
        has_other_chance: whether random numbers and the clock are others than in the original process.
    """
    if has_other_chance:
        other_chance()
    run = Run([])
    states = [attributes_of(module)]
    for call in calls:
        run.returned.append(_run(module, call))
        if run.returned[-1].error:
            return run
        states.append(attributes_of(module))
    run.touched.extend(states[0].changed(states[1]))
    run.changed.extend(states[1].changed(states[-1]))
    return run


def counted_calls(module: torch.nn.Module, call: Call) -> list[str]:
    """Makes one call twice; returns the names of plain attributes that the second one changes."""
    _run(module, call)
    state = attributes_of(module)
    _run(module, call)
    return state.changed(attributes_of(module))


def changed_state(module: torch.nn.Module, calls: Sequence[Call]) -> list[str]:
    """Makes calls in a row; returns the names of what they change, outside of buffers."""
    before = everything_of(module)
    for call in calls:
        if _run(module, call).error:
            break
    return before.changed(everything_of(module))


def _run(module: torch.nn.Module, call: Call) -> Returned:
    leaves = pytree.tree_leaves((call.args, call.kwargs))
    before = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    try:
        with warnings.catch_warnings(), quiet_logs(), torch.no_grad():
            warnings.simplefilter("ignore")
            result = getattr(module, call.function)(*call.args, **call.kwargs)
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


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors of one dtype have the same shape and bits."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    one, other = (each.detach().contiguous().view(-1).view(torch.uint8) for each in (first, second))
    return torch.equal(one, other)


def _plain(leaf: Any) -> Any:
    """Returns a copy of a leaf: later calls may write to a tensor that is state."""
    if isinstance(leaf, torch.Tensor):
        return torch.Tensor.clone(leaf.detach()).resolve_conj().resolve_neg()
    return leaf if isinstance(leaf, (bool, int, float, str, type(None))) else Opaque(type(leaf).__name__)
