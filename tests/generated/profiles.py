# SPDX-License-Identifier: Apache-2.0
"""Kinds of generated programs: which features are drawn, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import torch

from tests.generated.rows import GROUPS, GUARD_GROUPS, LAYER_GROUPS, LOOP_GROUPS, SETTING_GROUPS
from tests.generated.rows_layers import WEIGHTED
from tests.generated.rows_loops import LOOPS
from tests.generated.values import FLOATS, INTEGERS


class Profile(NamedTuple):
    """How often something is drawn, each a share of programs unless stated otherwise.

    Attributes:
        groups: rows -> their weight.
        first: rows that each method starts with one of, if there are any; not of constants alone.
        dtypes: dtype of inputs -> its weight.
        sizes: the weight of each size, from 0 on.
        values: the weights of normal, dyadic, special and large values.
        counts: numbers of rows of `forward`.
        dynamic: have dynamic sizes.
        state: have state in buffers.
        attributes: have state elsewhere, which a program may refuse to lose.
        written: may write to their inputs.
        methods: have a second method.
        aliases: are exported with the same tensor for two inputs, or with a constant of the module.
        views: return an input, a constant or state, or a view of one.
        special: have NaN and infinities.
        constants: of the new operands, are constants.
    """

    groups: Mapping[tuple[str, ...], float] = GROUPS
    first: tuple[str, ...] = ()
    dtypes: Mapping[torch.dtype, float] = dict(
        zip((*FLOATS, *INTEGERS, torch.bool), (16, 4, 2, 2, 5, 3, 2, 1, 1, 2), strict=True)
    )
    sizes: tuple[float, ...] = (0.25, 2, 4, 4, 3, 1.5, 1, 1)
    values: tuple[float, ...] = (6, 4, 3, 0.5)
    counts: tuple[int, ...] = (3, 5, 8, 12, 20, 30)
    dynamic: float = 1 / 3
    state: float = 1 / 3
    attributes: float = 0.06
    written: float = 0.08
    methods: float = 0.12
    aliases: float = 0.12
    views: float = 0.15
    special: float = 0.2
    constants: float = 0.25


ANY: Final = Profile()
# Layers with constant weights of sizes that groups divide, in float32.
LAYERS: Final = Profile(
    groups=LAYER_GROUPS,
    first=WEIGHTED,
    dtypes={torch.float32: 1},
    sizes=(0, 1, 1, 0.5, 6, 0, 0, 0, 4),
    counts=(3, 5, 8, 12),
    attributes=0.0,
    written=0.05,
    special=0.0,
    constants=0.8,
)
# Likewise, with loops.
LOOPED: Final = LAYERS._replace(groups=LOOP_GROUPS, first=LOOPS, counts=(2, 3, 5))
# Settings of operators that are computed from dynamic sizes.
SETTINGS: Final = Profile(
    groups=SETTING_GROUPS,
    dtypes={torch.float32: 8, torch.float16: 1, torch.int64: 1},
    sizes=(0.1, 1, 3, 4, 4, 2, 1, 1),
    counts=(2, 3, 5),
    dynamic=1.0,
    state=0.1,
    attributes=0.0,
    special=0.05,
    constants=0.1,
)
# Selections between values of which some are not finite, and large values.
GUARDS: Final = Profile(
    groups=GUARD_GROUPS,
    dtypes={torch.float32: 1},
    values=(4, 4, 3, 3),
    counts=(2, 3, 5),
    dynamic=0.2,
    state=0.1,
    attributes=0.0,
    special=0.3,
)
PROFILES: Final = {
    "any": ANY,
    "layers": LAYERS,
    "loops": LOOPED,
    "settings": SETTINGS,
    "guards": GUARDS,
}
QUANTIZED: Final = frozenset({"layers", "loops"})
"""Profiles of programs that are quantized."""
