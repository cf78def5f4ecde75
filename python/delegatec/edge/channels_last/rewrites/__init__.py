# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and resizing of ATen as permutations around channels-last operators.

`edge/channels_last` removes most of the permutations.
"""

from __future__ import annotations

from typing import Final

from delegatec.edge.channels_last.rewrites import (
    convolutions,
    exact_pools,
    large_pools,
    resizing,
    shuffling,
)

REWRITES: Final = (
    *convolutions.REWRITES,
    *exact_pools.REWRITES,
    *large_pools.REWRITES,
    *resizing.REWRITES,
    *shuffling.REWRITES,
)
