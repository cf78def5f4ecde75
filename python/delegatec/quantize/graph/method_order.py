# SPDX-License-Identifier: Apache-2.0
"""The order in which methods that share state are observed."""

from __future__ import annotations

from collections.abc import Mapping

from torch.export import ExportedProgram

from delegatec.edge.state import written_state


def readers(methods: Mapping[str, ExportedProgram]) -> dict[str, frozenset[str]]:
    """Returns the methods that only read state, with its names."""
    state = frozenset(written_state(methods.values()))
    found = {
        method: state & {*program.graph_signature.inputs_to_buffers.values()}
        for method, program in methods.items()
        if not written_state([program])
    }
    return {method: read for method, read in found.items() if read}


def in_order_of_state(methods: Mapping[str, ExportedProgram]) -> list[str]:
    """Returns the methods in the order in which they are observed.

    It is the order of the model, but a method that only reads state follows the first one that writes to it:
    the range of its results comes from values of real use, not from the initial ones.
    """
    written = {method: written_state([program]) for method, program in methods.items()}
    state = frozenset().union(*written.values())
    order, waiting, known = list[str](), list(methods), set[str]()
    while waiting:
        for method in waiting:
            read = state & {*methods[method].graph_signature.inputs_to_buffers.values()}
            if written[method] or not read or read & known:
                break
        else:
            method = waiting[0]
        waiting.remove(method)
        order.append(method)
        known |= written[method]
    return order
