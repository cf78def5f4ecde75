# SPDX-License-Identifier: Apache-2.0
"""torch.export with complete stack traces of user code, and without log output."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import sys
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch._functorch import predispatch
from torch.export import ExportedProgram
from torch.fx.proxy import TracerBase

from delegatec.diagnostics.quiet import quiet_logs
from delegatec.edge.copied_values import copied_values
from delegatec.edge.dropouts import without_dropouts
from delegatec.edge.functionalize import undeclared_views
from delegatec.frontend.composite_functions import composite_functions_replaced
from delegatec.frontend.eager.calls import same_bits
from delegatec.frontend.eager.state import is_plain, tensors_of
from delegatec.frontend.expert_operators import expert_operators_replaced
from delegatec.frontend.loop_operands import initial_states_copied
from delegatec.frontend.model import Method
from delegatec.frontend.module_checks import is_computed_by_transform
from delegatec.frontend.recurrent_functions import recurrent_functions_replaced
from delegatec.frontend.vision_operators import vision_operators_replaced
from delegatec.frontend.workspace import Workspace

# Hooks of `forward`, which other methods do not run.
_HOOKS: Final = ("_forward_pre_hooks", "_forward_hooks")
_MISSING: Final = object()


def trace(module: torch.nn.Module, method: Method, strict: bool, workspace: Workspace) -> ExportedProgram:
    """Exports one method of a module.

    Args:
        module: in eval mode.
        method: the method, and how it is called.
        strict: as in `torch.export.export`.
        workspace: identifies the user's frames.

    Raises:
        Exception: any exception of torch.export, or of the user's code.
    """
    with (
        torch.no_grad(),
        _without_new_attributes(module),
        _without_writes(module),
        _as_forward(module, method.function, strict),
        _user_frames(workspace),
        composite_functions_replaced(strict),
        expert_operators_replaced(),
        initial_states_copied(),
        recurrent_functions_replaced(),
        vision_operators_replaced(),
        _quiet(),
    ):
        program = torch.export.export(
            module,
            method.example_inputs,
            dict(method.example_kwargs or {}),
            dynamic_shapes=method.dynamic_shapes,  # type: ignore[arg-type]
            strict=strict,
        )
        if not _transforms(program):
            return program
        # The calls of torch.vmap and torch.func are those of Python functions, not of operators.
        _remove_unused_tensors(program)
        decomposed = undeclared_views(node for graph in _graphs(program) for node in graph.nodes)
        decomposed[torch.ops.aten.copy.default] = copied_values()
        with without_dropouts(program):
            retraced: ExportedProgram = program.run_decompositions(decomposed)
        _scalars_to_tensors(retraced)
        return retraced


def _transforms(program: ExportedProgram) -> bool:
    """Whether a program calls functions of torch's that enter and leave a transform, such as vmap.

    Not if torch.func computed constants of it, which is another problem (`module_checks`).
    """
    return not any(map(is_computed_by_transform, program.constants.values())) and any(
        getattr(node.target, "__module__", None) == predispatch.__name__
        for graph in _graphs(program)
        for node in graph.nodes
    )


def _graphs(program: ExportedProgram) -> Iterator[torch.fx.Graph]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module.graph


def _remove_unused_tensors(program: ExportedProgram) -> None:
    """Removes the tensors of the module that a program does not use.

    One may be another name of a buffer to which the program writes; torch retraces no such pair.
    """
    signature = program.graph_signature
    placeholders = program.graph.find_nodes(op="placeholder")
    for node, spec in zip(placeholders, list(signature.input_specs), strict=True):
        if spec.target in program.state_dict and not node.users:
            program.graph.erase_node(node)
            signature.input_specs.remove(spec)
            del program.state_dict[spec.target]
    program.graph_module.recompile()


def _scalars_to_tensors(program: ExportedProgram) -> None:
    """Creates the tensors that nested transforms copy from scalars."""
    for graph in _graphs(program):
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default):
            if not isinstance(node.args[0], torch.fx.Node):
                node.target = torch.ops.aten.scalar_tensor.default


@contextlib.contextmanager
def _without_new_attributes(module: torch.nn.Module) -> Iterator[None]:
    """Deletes the attributes that tracing adds to modules: their values are torch's stand-ins for tensors."""
    before = [(each, set(vars(each))) for each in module.modules()]
    try:
        yield
    finally:
        for each, names in before:
            for name in vars(each).keys() - names:
                del vars(each)[name]


@contextlib.contextmanager
def _without_writes(module: torch.nn.Module) -> Iterator[None]:
    """Restores tensors outside of parameters and buffers, to which tracing writes.

    torch.export replaces parameters and buffers by fake tensors, but not these: a write of constants, such as
    `add_(1)`, changes them, and so the initial state.
    """
    tensors = [
        each
        for each in tensors_of(module).values()
        if type(each) is torch.Tensor and is_plain(each) and not _repeats(each)
    ]
    before = [each.detach().clone() for each in tensors]
    try:
        yield
    finally:
        for tensor, value in zip(tensors, before, strict=True):
            if not same_bits(tensor, value):
                tensor.detach().copy_(value)


def _repeats(tensor: torch.Tensor) -> bool:
    """Whether an expanded tensor has elements several times: it only another name of it is written to."""
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


@contextlib.contextmanager
def _as_forward(module: torch.nn.Module, name: str, strict: bool) -> Iterator[None]:
    """Makes another method the `forward` that torch.export traces, with the same weight names.

    What this method calls is the module's own `forward`, with its hooks. `strict` exports trace the method's
    bytecode, not a function around it, and are refused if it calls `forward`.
    """
    if name == "forward":
        yield
        return
    function = getattr(module, name)

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with _attributes(module, own):
            return function(*args, **kwargs)

    own = {each: vars(module).get(each, _MISSING) for each in ("forward", *_HOOKS)}
    hooks = {each: OrderedDict[int, Any]() for each in _HOOKS}
    replaced = hooks | {"forward": function if strict else traced}
    with _attributes(module, replaced):
        yield


@contextlib.contextmanager
def _attributes(module: torch.nn.Module, values: Mapping[str, Any]) -> Iterator[None]:
    """Sets attributes of an instance, or deletes those that are `_MISSING`, for a while."""

    def assign(values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if value is _MISSING:
                vars(module).pop(name, None)
            else:
                vars(module)[name] = value

    before = {name: vars(module).get(name, _MISSING) for name in values}
    assign(values)
    try:
        yield
    finally:
        assign(before)


@contextlib.contextmanager
def _user_frames(workspace: Workspace) -> Iterator[None]:
    """Records all user frames: torch keeps only frames of functions named `forward`, not lines in helpers."""
    original = TracerBase._filter_traceback_frames

    def keep(tracer: Any, stack: traceback.StackSummary) -> traceback.StackSummary:
        frames = [*workspace.user_frames(stack), *_body_frames(workspace)]
        return traceback.StackSummary.from_list(frames)

    TracerBase._filter_traceback_frames = keep  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = original  # type: ignore[method-assign]


def _body_frames(workspace: Workspace) -> list[traceback.FrameSummary]:
    """Returns the user's frames in the body of control flow being traced.

    Bodies are traced twice: torch.compile turns them into graphs, which torch.export runs. The user's
    functions are not on the stack then; the nodes of those graphs record them.
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        module = frame.f_locals.get("self") if frame.f_code.co_filename.startswith("<") else None
        if isinstance(module, torch.fx.GraphModule):
            line = frame.f_lineno - getattr(module, "_prologue_start", 0)
            index = getattr(module, "_lineno_map", {}).get(line)
            nodes = list(module.graph.nodes)
            trace = nodes[index].meta.get("stack_trace") if index is not None and index < len(nodes) else None
            frames = workspace.recorded_frames(trace or "")
            if frames:
                return frames
    return []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences torch's logs of failures that it also raises."""
    printed = io.StringIO()
    with quiet_logs(logging.ERROR):
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield
        sys.stderr.write(printed.getvalue())
