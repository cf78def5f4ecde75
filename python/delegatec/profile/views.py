# SPDX-License-Identifier: Apache-2.0
"""The rows of a profile: its costs, grouped by what the user asks for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.profile.attribution import Cost, Origin, Profile

UNKNOWN: Final = "(unknown)"
BESIDES: Final = "(calls of delegates, besides their operations)"
MODEL: Final = "(the model itself)"


@dataclass(frozen=True)
class Row:
    """What takes time.

    Attributes:
        name: what it is.
        nanoseconds: in one run of the method.
        count: how often it is called.
    """

    name: str
    nanoseconds: float
    count: int


def kind_of(cost: Cost) -> str:
    """Returns what runs: events of XNNPACK have ordinals of their kind."""
    return re.sub(r" #\d+$", "", cost.operation) or cost.calls


def line_of(origin: Origin) -> str:
    """Returns the user's line."""
    return origin.source or UNKNOWN


_KEYS: Final[Mapping[str, Callable[[Cost, Origin], str]]] = {
    "kernel": lambda cost, origin: kind_of(cost),
    "library": lambda cost, origin: origin.via or line_of(origin),
    "line": lambda cost, origin: line_of(origin),
    "module": lambda cost, origin: origin.module or MODEL,
    "operator": lambda cost, origin: origin.operator or UNKNOWN,
}
# Operators that take most of the time of a kernel that computes others with them.
_PRODUCT: Final = re.compile(
    r"aten\.(batch_norm|conv\d?d?|conv_\w+|convolution|linear|matmul|mm|bmm|addmm|baddbmm"
    r"|einsum|scaled_dot_product_attention)\."
)
VIEWS: Final = ("line", "library", "module", "operator", "kernel", "step")


def rows_of(profile: Profile, by: str) -> list[Row]:
    """Returns what takes time, the most first; steps are in the order of the program.

    Args:
        profile: the profile.
        by: one of `VIEWS`: what the rows are.
    """
    if by == "step":
        return [Row(_step(cost), cost.nanoseconds, cost.count) for cost in profile.costs]
    times: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for cost, besides in costs_of(profile):
        for name, share in _shares(cost, by, besides).items():
            times[name] += cost.nanoseconds * share
            counts[name] += cost.count
    return sorted(
        (Row(name, times[name], counts[name]) for name in times),
        key=lambda row: (-row.nanoseconds, row.name),
    )


def costs_of(profile: Profile) -> Iterator[tuple[Cost, bool]]:
    """Yields each cost, and whether it is what the call of a delegate takes besides its operations."""
    with_operations = {cost.instruction for cost in profile.costs if cost.operation}
    for cost in profile.costs:
        yield cost, not cost.operation and cost.instruction in with_operations


def origins_of(cost: Cost) -> Sequence[Origin]:
    """Returns the nodes that share the time of a cost equally: products and convolutions, if there are any.

    What was fused with these, such as a bound of their result, takes a small part of the time. A batch norm
    stands for the convolution that it was folded into.
    """
    products = [each for each in cost.origins if _PRODUCT.match(each.operator)]
    return products or cost.origins


def total_of(profile: Profile) -> float:
    """Returns the sum of the rows in nanoseconds: less than a run if the host is busy."""
    return sum(cost.nanoseconds for cost in profile.costs)


def _step(cost: Cost) -> str:
    nodes = ", ".join(dict.fromkeys(origin.node for origin in cost.origins))
    name = f"{cost.instruction} {cost.calls} {cost.operation}".rstrip()
    return f"{name}: {nodes}" if cost.operation or cost.origins else name


def _shares(cost: Cost, by: str, besides: bool) -> Mapping[str, float]:
    """Returns the share of each row in a cost."""
    if besides:
        return {BESIDES: 1.0}
    names: Sequence[str] = [_KEYS[by](cost, origin) for origin in origins_of(cost)]
    if by == "kernel":
        names = [kind_of(cost)]
    shares: dict[str, float] = defaultdict(float)
    for name in names or [UNKNOWN]:
        shares[name] += 1 / len(names or [UNKNOWN])
    return shares
