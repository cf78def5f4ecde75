# SPDX-License-Identifier: Apache-2.0
"""Weights of tensor subclasses, such as those of torchao's `quantize_`, as the plain tensors inside them.

torch.export traces into a subclass and reads its parts by an operator, so that only the parts are inputs of
the computation. A part is named after its weight: `layer.weight.qdata`. Operators that the subclass
implements below torch.export's level are called with the whole weight; they are traced here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

aten = torch.ops.aten

_READS_PART = torch.ops.export.access_subclass_inner_tensor.default


def unwrap_subclass_weights(program: ExportedProgram) -> None:
    """Replaces weights of tensor subclasses by their parts, in the graph, the signature and the state.

    A weight that the graph also uses as a whole stays.
    """
    signature = program.graph_signature
    specs: list[InputSpec] = []
    placeholders = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(signature.input_specs, placeholders, strict=True):
        value = program.state_dict.get(spec.target or "")
        if value is not None and is_traceable_wrapper_subclass(value):
            specs += _unwrapped(program, node, value, spec)
            if not node.users:
                program.graph.erase_node(node)
                del program.state_dict[spec.target]
                continue
        specs.append(spec)
    if len(specs) != len(placeholders) or any(
        a is not b for a, b in zip(specs, signature.input_specs, strict=True)
    ):
        signature.input_specs[:] = specs
        program.graph_module.recompile()


def _unwrapped(program: ExportedProgram, node: Node, value: Any, spec: InputSpec) -> Iterator[InputSpec]:
    """Yields the specs of new inputs for the plain tensors inside a weight, and uses them in the graph."""
    found: dict[str, Node] = {}
    used: list[tuple[str, Any]] = []

    def placeholder(path: str, part: Any, val: Any) -> Node:
        if path not in found:
            found[path] = _placeholder(program, node, val, path)
            used.append((path, part))
        return found[path]

    pending = [(node, value, spec.target or "")]
    while pending:
        whole, held, name = pending.pop()
        for user in [user for user in whole.users if user.target is _READS_PART]:
            attribute = str(user.args[1])
            part, path = getattr(held, attribute), f"{name}.{attribute}"
            if is_traceable_wrapper_subclass(part):
                pending.append((user, part, path))
                continue
            user.replace_all_uses_with(placeholder(path, part, user.meta["val"]))
            program.graph.erase_node(user)
        for user in list(whole.users):
            _trace(program.graph, whole, held, name, user, placeholder)
        if whole is not node and not whole.users:
            program.graph.erase_node(whole)
    for path, part in used:
        is_parameter = spec.kind is InputKind.PARAMETER
        program.state_dict[path] = torch.nn.Parameter(part, requires_grad=False) if is_parameter else part
        yield replace(spec, arg=TensorArgument(found[path].name), target=path)


def _placeholder(program: ExportedProgram, before: Node, val: Any, path: str) -> Node:
    with program.graph.inserting_before(before):
        placeholder: Node = program.graph.placeholder(f"p_{path.replace('.', '_')}")
    placeholder.meta = {"val": val}
    return placeholder


def _trace(
    graph: Graph,
    whole: Node,
    held: Any,
    name: str,
    user: Node,
    placeholder: Callable[[str, Any, Any], Node],
) -> None:
    """Replaces a call on a whole weight by the subclass's own calls on its parts, if they can be traced."""
    val = user.meta.get("val")
    others = [operand for operand in user.all_input_nodes if operand is not whole]
    if not isinstance(user.target, OpOverload) or not all(
        isinstance(each, FakeTensor) for each in (val, *(other.meta.get("val") for other in others))
    ):
        return
    parts = list(_leaves(held, name))

    def call(*tensors: Any) -> Any:
        rebuilt = _rebuilt(held, iter(tensors))
        values = dict(zip(others, tensors[len(parts) :], strict=True))
        args, kwargs = map_arg(
            (user.args, user.kwargs), lambda operand: rebuilt if operand is whole else values[operand]
        )
        return user.target(*args, **kwargs)  # type: ignore[operator]

    mode = val.fake_mode  # type: ignore[union-attr]
    with mode, torch.no_grad():
        fakes = [mode.from_tensor(part.detach(), static_shapes=True) for _, part in parts]
        try:
            traced = make_fx(call)(*fakes, *(other.meta["val"] for other in others)).graph
        except Exception:  # noqa: BLE001 - code of the subclass, which need not implement the call
            return
    if any(node.op == "get_attr" for node in traced.nodes):
        return
    operands = [placeholder(path, part, fake) for (path, part), fake in zip(parts, fakes, strict=True)]
    copies = dict(zip(traced.find_nodes(op="placeholder"), [*operands, *others], strict=True))
    (result,) = traced.output_node().all_input_nodes
    if user.target is aten.linear.default:
        layer = _layer(traced, result)
        if layer is not None:
            result = layer
            traced.output_node().args = (layer,)
            traced.eliminate_dead_code()
    with graph.inserting_before(user):
        for node in traced.nodes:
            if node.op != "call_function":
                continue
            copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].meta = {**user.meta, "val": node.meta["val"]}
    user.replace_all_uses_with(copies[result])
    graph.erase_node(user)


def _layer(traced: Graph, result: Node) -> Node | None:
    """Returns the linear layer that a product of the inputs and a transposed weight is, in a traced graph."""
    product = _without_views(result)
    if product.target not in (aten.mm.default, aten.addmm.default):
        return None
    *bias, rows, matrix = product.args
    assert isinstance(rows, Node) and isinstance(matrix, Node)
    x = _without_views(rows)
    if x.op != "placeholder" or matrix.target is not aten.t.default or len(product.kwargs):
        return None
    with traced.inserting_after(result):
        layer = traced.call_function(aten.linear.default, (x, matrix.args[0], *bias))
    layer.meta = dict(result.meta)
    return layer if x.meta["val"].shape[:-1] == result.meta["val"].shape[:-1] else None


def _without_views(node: Node) -> Node:
    while node.target in (aten.view.default, aten._unsafe_view.default):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _leaves(held: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the plain tensors inside a weight, and their names."""
    for attribute in held.__tensor_flatten__()[0]:
        part, path = getattr(held, attribute), f"{name}.{attribute}"
        yield from _leaves(part, path) if is_traceable_wrapper_subclass(part) else [(path, part)]


def _rebuilt(held: Any, leaves: Iterator[Any]) -> Any:
    """Makes a weight from other plain tensors."""
    names, context = held.__tensor_flatten__()
    inner = {
        name: _rebuilt(part, leaves) if is_traceable_wrapper_subclass(part) else next(leaves)
        for name, part in ((name, getattr(held, name)) for name in names)
    }
    return type(held).__tensor_unflatten__(inner, context, held.shape, held.stride())
