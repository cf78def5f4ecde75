# SPDX-License-Identifier: Apache-2.0
"""Which regions of a program become integer arithmetic that the target supports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.arm.integer.conversion import Conversion
from delegatec.backends.arm.integer.convert import Converter
from delegatec.backends.arm.integer.features import Features
from delegatec.backends.arm.integer.quantized_regions import Region, is_float, is_value, regions_of
from delegatec.backends.arm.settings import Settings
from delegatec.backends.arm.static_sizes import STATIC
from delegatec.backends.common.legality import Legality, TableTarget
from delegatec.delegation import Rejection
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.rule import first_broken
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import QUANTIZATIONS

Check = Callable[[EdgeProgram, Node], Rejection | None]
"""Returns why a call on integers is not supported."""

_HELP: Final = "quantize the whole model, or add the profile FP to the specification"


def unsupported(
    program: EdgeProgram, facts: Facts, features: Features, check: Check
) -> dict[Region, Rejection]:
    """Returns the regions that cannot be converted, each with the reason: a call of it, and why.

    Args:
        program: a private program; unchanged.
        facts: analysis results for its values.
        features: of the target.
        check: returns why the target does not support a call that replaces others.
    """
    regions = regions_of(program, features.bools)
    # Conversion reads sizes: it would make those of the program constants.
    found = {
        region: reason
        for region in dict.fromkeys(regions.values())
        if (reason := _without_sizes(region)) is not None
    }
    converter = Converter(program, facts, features, members(found))
    converter.run()
    for region in dict.fromkeys(regions.values()):
        if region in found:
            continue
        reason = _without_conversion(region, converter.conversion)
        if reason is not None:
            found[region] = reason
    for node in converter.used():
        origin = converter.origins[node]
        if origin not in regions or regions[origin] in found:
            continue
        refused = check(program, node)
        if refused is not None:
            found[regions[origin]] = Rejection(origin, refused.rule, refused.message, refused.help)
    converter.undo()
    return found


def _without_sizes(region: Region) -> Rejection | None:
    """Returns why TOSA does not support the sizes of a region's values."""
    for node in region.nodes:
        refused = first_broken([STATIC], node, None)
        if refused is not None:
            return Rejection(node, refused.rule, refused.message, refused.help)
    return None


def _without_conversion(region: Region, conversion: Conversion) -> Rejection | None:
    """Returns why a region stays in floating point."""
    if region.inputs:
        return Rejection(region.nodes[0], "quantized", _named(region.inputs), _HELP)
    if region.outputs:
        return Rejection(region.nodes[-1], "quantized", f"the result {_named(region.outputs)}", _HELP)
    for node in region.nodes:
        if node in conversion.reasons:
            return Rejection(node, "quantized", conversion.reasons[node], _HELP)
    sinks = [node for node in region.nodes if not is_value(node, conversion.arithmetic.bools)]
    is_quantized = any(node.target in QUANTIZATIONS for node in region.nodes) or not any(
        map(is_float, region.nodes)
    )
    if (
        is_quantized
        and sinks
        and all(node in conversion.replaced or node in conversion.conditions for node in sinks)
    ):
        return None
    return Rejection(region.nodes[0], "quantized", "it is not between quantized values", _HELP)


def _named(values: Sequence[Node]) -> str:
    """Returns the values that cannot cross the boundary of a region."""
    floats = [each for each in values if is_float(each)]
    names = ", ".join(dict.fromkeys(each.name for each in floats or values))
    return f"{names} is {'floating point' if floats else 'of bool, which the target lacks'}"


def convert_quantized_regions(program: EdgeProgram, facts: Facts, target: TableTarget[Settings]) -> bool:
    """Converts the regions of a private program to integer arithmetic that the target supports.

    Without the profile FP, all of them are, since the partitioner has selected them.

    Args:
        program: edited in place.
        facts: analysis results for its values.
        target: the backend.

    Returns:
        Whether it changed anything.
    """
    skipped: set[Node] = set()
    features = Features.of(target.settings.specification)
    if target.settings.specification.floating:
        check = Legality(target, ()).rejection
        skipped = members(unsupported(program, facts, features, check))
    converter = Converter(program, facts, features, skipped)
    converter.run()
    return converter.finish()


def members(regions: Collection[Region]) -> set[Node]:
    """Returns the nodes of regions."""
    return {node for region in regions for node in region.nodes}
