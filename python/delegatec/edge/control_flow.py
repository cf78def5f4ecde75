# SPDX-License-Identifier: Apache-2.0
"""Calls of control flow: their bodies and operands.

Source: `torch._higher_order_ops` of torch 2.13. The operands of a body are those of its call, group by group;
for a sliced operand, the body gets one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram


@dataclass(frozen=True)
class Form:
    """The signature of a control-flow operator, as positions of its arguments.

    Attributes:
        bodies: the bodies.
        free: operands that are the same in every run of a body.
        carried: initial values of loop state; the first results of the body are the next values.
        sliced: operands of which each iteration gets a row.
    """

    bodies: tuple[int, ...]
    free: int
    carried: int | None = None
    sliced: int | None = None

    def groups(self) -> list[int]:
        """Positions of the groups of operands, in the order of a body's operands."""
        return sorted(group for group in (self.carried, self.sliced, self.free) if group is not None)


COND: Final = torch.ops.higher_order.cond
MAP: Final = torch.ops.higher_order.map_impl
SCAN: Final = torch.ops.higher_order.scan
WHILE_LOOP: Final = torch.ops.higher_order.while_loop

FORMS: Final[dict[Any, Form]] = {
    COND: Form(bodies=(1, 2), free=3),
    MAP: Form(bodies=(0,), sliced=1, free=2),
    SCAN: Form(bodies=(0,), carried=1, sliced=2, free=3),
    WHILE_LOOP: Form(bodies=(0, 1), carried=2, free=3),
}


def calls(program: EdgeProgram) -> list[Node]:
    """Returns the calls of control flow in a program's own graph, in order."""
    return [node for node in program.graph.nodes if node.target in FORMS]


def bodies_of(program: EdgeProgram, call: Node) -> list[EdgeProgram]:
    """Returns the bodies of a call, in the order of its arguments."""
    names = [call.args[position] for position in FORMS[call.target].bodies]
    return [program.bodies[name.name] for name in names if isinstance(name, Node)]


def body_nodes(program: EdgeProgram, call: Node) -> Iterator[Node]:
    """Yields the calls in the bodies of a call of control flow, recursively."""
    for body in bodies_of(program, call):
        for part in body.walk():
            yield from (node for node in part.graph.nodes if node.op == "call_function")


def nesting(program: EdgeProgram, call: Node) -> int:
    """Returns the nesting depth of control flow at a call, itself included."""
    inner = (nesting(body, each) for body in bodies_of(program, call) for each in calls(body))
    return 1 + max(inner, default=0)


def group(call: Node, position: int | None) -> list[Any]:
    """Returns a group of a call's operands; empty if its operator or the call has none."""
    if position is None or position >= len(call.args):
        return []
    operands: Any = call.args[position]
    return list(operands)


def operands(call: Node) -> list[Any]:
    """Returns all operands of a call, in the order of its bodies' operands."""
    return [operand for position in FORMS[call.target].groups() for operand in group(call, position)]


def adopt_bodies(program: EdgeProgram) -> None:
    """Turns graphs that a program's calls run into programs, recursively.

    All of their inputs are operands. Each call gets its own copies.
    """
    # torch.export renames placeholders without updating the namespace of the graph
    program.graph._graph_namespace._used_names.update(node.name for node in program.graph.nodes)
    seen: set[str] = set()
    for call in calls(program):
        for position in FORMS[call.target].bodies:
            attribute = call.args[position]
            assert isinstance(attribute, Node) and isinstance(attribute.target, str)
            if attribute.target in seen:
                attribute = _own_copy(program, call, position)
            seen.add(str(attribute.target))
            body = _body(program, attribute)
            program.bodies[attribute.name] = body
            adopt_bodies(body)


def returned(body: EdgeProgram) -> list[Any]:
    """Returns the flat results of a body: the condition of a loop returns a value, not a tuple."""
    results: Any = body.output_node().args[0]
    return list(results) if isinstance(results, (tuple, list)) else [results]


def normalize_bodies(program: EdgeProgram) -> None:
    """Makes every body return a tuple, and turns tensors left in its graph by torch.export into constants."""
    for each in program.walk():
        each.output_node().args = (tuple(returned(each)),)
        for node in each.graph.find_nodes(op="get_attr"):
            value = getattr(each.graph_module, node.target, None)
            if isinstance(value, torch.Tensor):
                _lift(each, node, value.detach())


def _lift(program: EdgeProgram, attribute: Node, value: torch.Tensor) -> None:
    """Turns a tensor attribute of a graph into a constant of the program."""
    mode = Builder(program).fake_mode
    with program.graph.inserting_before(next(iter(program.graph.nodes))):
        placeholder = program.graph.placeholder(f"c_{attribute.name}")
    placeholder.meta = {**attribute.meta, "val": mode.from_tensor(value, static_shapes=True)}
    program.constants[placeholder.name] = value.contiguous()
    target = f"{program.method}.{attribute.target}"
    program.input_specs.insert(
        0, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(placeholder.name), target)
    )
    attribute.replace_all_uses_with(placeholder)
    program.graph.erase_node(attribute)


def _own_copy(program: EdgeProgram, call: Node, position: int) -> Node:
    """Gives a call its own copy of a graph that another call shares."""
    shared: Any = call.args[position]
    module = getattr(program.graph_module, shared.target)
    name = next(
        name
        for name in (f"{shared.target}_{index}" for index in range(1, len(program.graph.nodes) + 2))
        if not hasattr(program.graph_module, name)
    )
    program.graph_module.add_submodule(name, _copy(module))
    with program.graph.inserting_before(call):
        attribute = program.graph.get_attr(name)
    attribute.meta = dict(shared.meta)
    call.update_arg(position, attribute)
    return attribute


def _copy(module: GraphModule) -> GraphModule:
    """Returns a copy of a module's graph; nested graphs are copied when a call needs its own."""
    graph = Graph()
    result = graph.graph_copy(module.graph, {}, return_output_node=True)
    assert isinstance(result, tuple)
    value, old = result
    graph.output(value).meta = dict(old.meta)
    copied = GraphModule(module, graph)
    for name, child in module.named_children():
        if isinstance(child, GraphModule):
            copied.add_submodule(name, _copy(child))
    return copied


def _body(owner: EdgeProgram, attribute: Node) -> EdgeProgram:
    module = getattr(owner.graph_module, str(attribute.target))
    assert isinstance(module, GraphModule)
    body = EdgeProgram(
        method=f"{owner.method}.{attribute.name}",
        graph_module=module,
        input_specs=[],
        output_specs=[],
        constants={},
        range_constraints=owner.range_constraints,
        in_spec=pytree.tree_structure(((), {})),
        out_spec=pytree.tree_structure(()),
        is_body=True,
    )
    body.input_specs = [
        InputSpec(InputKind.USER_INPUT, _argument(node), None) for node in body.placeholders()
    ]
    body.output_specs = [
        OutputSpec(OutputKind.USER_OUTPUT, _argument(value), None) for value in returned(body)
    ]
    return body


def _argument(value: Any) -> Any:
    """Returns the argument for an operand or a result in a signature."""
    if not isinstance(value, Node):
        return ConstantArgument("", value)
    val = value.meta.get("val")
    kinds = {torch.SymInt: SymIntArgument, torch.SymFloat: SymFloatArgument, torch.SymBool: SymBoolArgument}
    return kinds.get(type(val), TensorArgument)(value.name)
