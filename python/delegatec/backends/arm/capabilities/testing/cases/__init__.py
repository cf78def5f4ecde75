# SPDX-License-Identifier: Apache-2.0
"""The cases of all operators."""

from typing import Final

from delegatec.backends.arm.capabilities.testing.cases.axes import axes
from delegatec.backends.arm.capabilities.testing.cases.control_flow import control_flow
from delegatec.backends.arm.capabilities.testing.cases.convolutions import convolutions
from delegatec.backends.arm.capabilities.testing.cases.elementwise import elementwise
from delegatec.backends.arm.capabilities.testing.cases.moves import moves, transposes
from delegatec.backends.arm.capabilities.testing.cases.pools import pools, products, resizes

CASES: Final = [
    *elementwise(),
    *convolutions(),
    *pools(),
    *products(),
    *resizes(),
    *axes(),
    *moves(),
    *transposes(),
    *control_flow(),
]
