# SPDX-License-Identifier: Apache-2.0
"""Computation with symbolic sizes that must not specialize them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from sympy import Eq, Symbol
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Graph
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, _ShapeEnvGuardError
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils._sympy.solve import try_solve
from torch.utils._traceback import CapturedTraceback

from delegatec.diagnostics.quiet import quiet_logs
from delegatec.edge.builder import Builder
from delegatec.edge.fakes import no_shortcuts
from delegatec.edge.symbols import UnknownSizeError

NEEDS_VALUE: Final = (GuardOnDataDependentSymNode, UnknownSizeError, _ShapeEnvGuardError)
"""Raised by code that needs the value of a symbolic size."""


@contextmanager
def no_new_guards(builder: Builder) -> Iterator[None]:
    """Makes comparisons of symbolic sizes raise if they would specialize a dynamic size.

    So do products of a constant with a size, for which torch computes with a placeholder. Shortcuts in torch
    that depend on such a comparison ("is this size 1?") are not used.
    """
    shape_env = builder.fake_mode.shape_env
    if shape_env is None:
        yield
        return
    # torch logs the errors
    with quiet_logs(logging.ERROR), shape_env.error_on_new_guards(), no_shortcuts(), _NoConcreteSizes():
        yield


class _NoConcreteSizes(TorchFunctionMode):
    """Rejects symbolic scalars in calls on tensors that are not fake: torch replaces them by 7777777.

    Traced calls are right: their results are fake.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        operands = [*args, *(kwargs or {}).values()]
        if any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in operands):
            tensors = [each for each in operands if isinstance(each, torch.Tensor)]
            is_fake = any(isinstance(each, FakeTensor) for each in tensors)
            if tensors and not is_fake and not _get_current_dispatch_mode_stack():
                raise UnknownSizeError(f"{getattr(func, '__name__', func)} of a constant and a dynamic size")
        return func(*args, **(kwargs or {}))


def complete_symbols(exported: ExportedProgram) -> None:
    """Completes what the shape environments of an exported program know of its symbols.

    Sizes 0 and 1 that `dynamic_shapes` allow: torch.export traces as if they were excluded, and only a `.pt2`
    that was read has them in its environment. And what readers of a `.pt2` leave out, without which torch
    raises a KeyError instead of its error: where data-dependent symbols come from, and the example's value of
    a symbol that is the size of no input.
    """
    for shape_env in shape_environments(exported.graph):
        _complete_values(shape_env)
        for symbol in list(shape_env.var_to_range):
            if not isinstance(symbol, Symbol):
                continue
            if not shape_env.is_unbacked_symint(symbol):
                declared = exported.range_constraints.get(symbol)
                shape_env.var_to_range[symbol] = declared or shape_env.var_to_range[symbol]
            elif symbol not in shape_env.var_to_stack:
                shape_env.var_to_stack[symbol] = CapturedTraceback.extract()  # type: ignore[no-untyped-call]


def _complete_values(shape_env: ShapeEnv) -> None:
    """Adds the values of symbols of which an environment has that of an expression, such as `2 * s`."""
    values = shape_env.backed_var_to_val
    for expression, value in list(values.items()):
        unknown = expression.free_symbols - values.keys()
        if len(unknown) == 1:
            (symbol,) = unknown
            solved = try_solve(Eq(expression, value), symbol)
            if solved is not None and solved[1].is_Integer:
                values[symbol] = solved[1]


def shape_environments(graph: Graph) -> set[ShapeEnv]:
    """Returns the environments of the symbols of a graph: one, in general."""
    modes = {
        value.fake_mode
        for node in graph.nodes
        for value in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(value, FakeTensor)
    }
    return {mode.shape_env for mode in modes if mode.shape_env is not None}
