# SPDX-License-Identifier: Apache-2.0
"""Comparison of exported programs with the results of the user's module."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics.exceptions import exception_text
from delegatec.edge.block_scaled import CONV2D, LINEAR
from delegatec.edge.draws import Drawn, drawn_values
from delegatec.edge.runnable import runnable
from delegatec.frontend.eager.calls import Opaque, Returned
from delegatec.frontend.eager.equal_products import openblas
from delegatec.frontend.eager.fast_products import fast_convolutions, replace_linear_layers
from delegatec.frontend.eager.plan import Planned
from delegatec.samples.compare import compare
from delegatec.samples.tolerances import DEFAULTS, EXACT, Tolerance

# An exported program calls the operators that the module called: sums have the same order but in functions
# that the frontend replaces.
_FACTOR: Final = 10
# Their tolerances are wide enough for these: a multiple of them hides a step of 1 in values near 10. It is
# needed next to blocks of few bits, for some of which torchao chooses other scales.
_HALVES: Final = frozenset({torch.float16, torch.bfloat16})


@dataclass(frozen=True)
class Difference:
    """The first difference of a method from the module.

    Attributes:
        index: of the call.
        text: the difference, such as "output 0 is 2, not 3".
        failed: whether the program fails.
    """

    index: int
    text: str
    failed: bool = False


def first_differences_of_random(
    programs: Mapping[str, ExportedProgram], planned: Sequence[Planned], returned: Sequence[Returned]
) -> list[Difference]:
    """Returns the first difference of each method, like `first_differences`, if methods draw random numbers.

    Calls of the module and of the program begin with the same seed. If they draw other numbers from it in
    the first call, since the program lacks draws that nothing reads, say, values that follow from random
    numbers are not compared.

    Args:
        programs: method -> its program.
        planned: the calls.
        returned: the result of the module for each.
    """
    found = first_differences(programs, planned, returned)
    methods = [method for method, _, _ in planned]
    if all(each.index > methods.index(methods[each.index]) for each in found):
        return found
    return first_differences(programs, planned, returned, drawn_values(programs))


def first_differences(
    programs: Mapping[str, ExportedProgram],
    planned: Sequence[Planned],
    returned: Sequence[Returned],
    ignored: Mapping[str, Drawn] = MappingProxyType({}),
) -> list[Difference]:
    """Runs programs in eager mode, all calls in a row; returns the first difference of each method.

    Products are oneDNN's, which is fast. If there is a difference, the calls are repeated with the products
    that the module's calls had: a program that rounds values at run time rounds some of them to another value
    if the last bits of a product differ. One that quantizes them has these products at once.

    Args:
        programs: method -> its program.
        planned: the calls.
        returned: the result of the module for each.
        ignored: method -> values of which only dtype and rank are compared: a size may be drawn, too.
    """
    is_block_scaled = any(_calls(program, (LINEAR, CONV2D)) for program in programs.values())
    halves = _FACTOR if is_block_scaled else 1
    if not any(_quantizes(program) for program in programs.values()):
        modules = _modules(programs)
        for module in modules.values():
            replace_linear_layers(module)
        with fast_convolutions():
            if not _differences(modules, planned, returned, halves, ignored):
                return []
    with openblas():
        return _differences(_modules(programs), planned, returned, halves, ignored)


def _calls(program: ExportedProgram, targets: Sequence[Any]) -> bool:
    return any(node.target in targets for node in program.graph.nodes)


def _quantizes(program: ExportedProgram) -> bool:
    names = (getattr(node.target, "_opname", "") for node in program.graph.nodes)
    return any(name.startswith("quantize_") for name in names)


def _modules(programs: Mapping[str, ExportedProgram]) -> dict[str, torch.nn.Module]:
    """Returns programs as modules with their initial state, which they share."""
    state: dict[str, torch.Tensor] = {}
    return {name: runnable(program, state) for name, program in programs.items()}


def _differences(
    modules: Mapping[str, torch.nn.Module],
    planned: Sequence[Planned],
    returned: Sequence[Returned],
    halves: int,
    ignored: Mapping[str, Drawn],
) -> list[Difference]:
    """Returns the first difference of each method; `halves` is the factor of tolerances of half precision."""
    found: dict[str, Difference] = {}
    for index, ((method, trial, call), wanted) in enumerate(zip(planned, returned, strict=True)):
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (trial.args, trial.kwargs))
        try:
            with torch.no_grad(), warnings.catch_warnings(), torch.random.fork_rng(devices=()):
                warnings.simplefilter("ignore")
                if call.seed is not None:
                    torch.manual_seed(call.seed)
                result = modules[method](*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - of any operator
            found.setdefault(method, Difference(index, f"the program fails: {exception_text(error)}", True))
            continue
        after = pytree.tree_leaves((args, kwargs))
        drawn = ignored.get(method, Drawn())
        text = _difference(pytree.tree_leaves(result), after, wanted, trial.leaves, halves, drawn)
        if text:
            found.setdefault(method, Difference(index, text))
    return list(found.values())


def _difference(
    results: list[Any],
    after: list[Any],
    wanted: Returned,
    before: Sequence[Any],
    halves: int,
    drawn: Drawn,
) -> str:
    expected = list(wanted.outputs)
    if len(results) != len(expected):
        results = [value for value in results if isinstance(value, torch.Tensor)]
        expected = [(path, value) for path, value in expected if isinstance(value, torch.Tensor)]
        if len(results) != len(expected):
            return f"the program returns {len(results)} tensors, not {len(expected)}"
    for index, (actual, (path, value)) in enumerate(zip(results, expected, strict=True)):
        is_drawn = index in drawn.outputs
        if text := _form_difference(actual, value) if is_drawn else _leaf_difference(actual, value, halves):
            return f"output {index}{path} {text}"
    for index, (old, actual) in enumerate(zip(before, after, strict=True)):
        if index in drawn.inputs:
            continue
        if isinstance(old, torch.Tensor) and (
            text := _leaf_difference(actual, wanted.written.get(index, old), halves)
        ):
            return f"input {index}, to which it writes, {text}"
    return ""


def _form_difference(actual: Any, expected: Any) -> str:
    if not (isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor)):
        return ""
    is_same = (actual.dtype, actual.dim()) == (expected.dtype, expected.dim())
    return "" if is_same else f"is {_kind(actual)}, not {_kind(expected)}"


def _leaf_difference(actual: Any, expected: Any, halves: int) -> str:
    if isinstance(expected, Opaque):
        return ""  # refused elsewhere
    if not isinstance(expected, torch.Tensor) and not isinstance(actual, torch.Tensor):
        is_scalar = isinstance(expected, (bool, int, float)) and isinstance(actual, (bool, int, float))
        if not is_scalar:
            return "" if actual == expected else f"is {actual!r}, not {expected!r}"
        if isinstance(expected, float):
            actual, expected = (torch.tensor(value, dtype=torch.float64) for value in (actual, expected))
        else:
            actual, expected = torch.tensor(int(actual)), torch.tensor(int(expected))
    elif not (isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor)):
        return f"is of type {type(actual).__name__}, not {type(expected).__name__}"
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return f"is {_kind(actual)}, not {_kind(expected)}"
    tolerance = _tolerance(expected, halves)
    result = compare(actual, expected, atol=tolerance.absolute, rtol=tolerance.relative)
    if result.passed:
        return ""
    where = f" at {list(result.worst_index or ())}" if expected.dim() else ""
    return f"is {result.worst_actual:.6g}, not {result.worst_expected:.6g}{where}"


def _tolerance(expected: torch.Tensor, halves: int) -> Tolerance:
    """Returns a tolerance for the size of the values: differences come from sums of the largest ones."""
    if not expected.dtype.is_floating_point:
        return EXACT
    finite = expected[expected.isfinite()].double().abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    default = DEFAULTS[expected.dtype]
    factor = halves if expected.dtype in _HALVES else _FACTOR
    return Tolerance(factor * default.absolute * largest, factor * default.relative)


def _kind(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
