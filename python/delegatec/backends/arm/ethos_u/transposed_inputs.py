# SPDX-License-Identifier: Apache-2.0
"""Notes on images that the NPU transposes, since the app passes them row-major."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.delegation import Estimates
from delegatec.diagnostics.notes import Note

_CHANNELS_LAST: Final = [0, 2, 3, 1]
_LEAST_PERCENT: Final = 1.0
_HELP: Final = (
    "set channels_last_inputs = True, or export the model with channels-last examples, and pass such tensors "
    "in the app"
)


def transposed_inputs(builder: GraphBuilder, estimates: Estimates) -> Iterator[Note]:
    """Yields a note on each input that the NPU makes channels-last, if it takes one per cent of the cycles.

    Args:
        builder: the graph of the delegate.
        estimates: of Vela, by operation.
    """
    cycles = {layer.name: layer.figures["cycles"] for layer in estimates.layers}
    total = estimates.totals["cycles"]
    inputs = {value.name: position for position, value in enumerate(builder.inputs)}
    for operation in builder.operations:
        if operation.name != "TRANSPOSE" or list(operation.attributes["perms"]) != _CHANNELS_LAST:
            continue
        position = inputs.get(operation.inputs[0].name)
        taken = cycles.get(operation.outputs[0].name, 0)
        percent = 100 * taken / total if total else 0.0
        if position is not None and percent >= _LEAST_PERCENT:
            figures = f"{percent:.1f} % of {total} cycles, by Vela's estimate"
            message = f"the NPU transposes the input {{operand}}: {figures}"
            yield Note("transposed-input", message, _HELP, operand=position)
