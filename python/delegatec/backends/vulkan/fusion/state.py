# SPDX-License-Identifier: Apache-2.0
"""State of a delegate: buffers that it loads, and stores at the end of a run."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.builder import Builder
from delegatec.edge.float32_regions import FLOAT32
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Calls that may be the same tensor as their operand.
_SAME: Final = (aten._to_copy.default, aten.clone.default)


def allocate_state(program: EdgeProgram) -> bool:
    """Makes the loads and stores of buffers that a private program writes to explicit.

    Stores are last. Results that are the old value of a buffer are copies of it.

    Args:
        program: edited in place.

    Returns:
        Whether it writes to buffers.
    """
    written = program.mutated_inputs()
    if not written:
        return False
    builder, output = Builder(program), program.output_node()
    first = next(node for node in program.graph.nodes if node.op == "call_function")
    states: dict[Node, Node] = {}
    for buffer in program.placeholders():
        if buffer.name in written:
            state = builder.at(first).call(RUNTIME.load_state.default, buffer, val=buffer.meta["val"])
            state.meta.pop(FLOAT32, None)  # of the first call: state has the precision of the delegate
            buffer.replace_all_uses_with(state)
            state.args = (buffer,)
            states[buffer] = state
    returned: Any = output.args[0]
    results = [_copied(builder.at(output), node, states) for node in returned]
    positions = {
        spec.target: index for index, spec in enumerate(program.output_specs) if spec.target is not None
    }
    names = program.names_in_model()
    for buffer, state in states.items():
        index = positions[names[buffer.name]]
        store = RUNTIME.store_state.default
        results[index] = builder.at(output).call(store, results[index], state, val=state.meta["val"])
    output.args = (tuple(results),)
    return True


def _copied(builder: Builder, node: Node, states: dict[Node, Node]) -> Node:
    """Returns a result; a copy of it if it may be the memory of a state."""
    source = node
    while source.target in _SAME:
        source = source.all_input_nodes[0]
    if source not in states.values():
        return node
    return builder.call(aten.clone.default, node, val=node.meta["val"])
