# SPDX-License-Identifier: Apache-2.0
"""The cases of all operators."""

from typing import Final

from delegatec.backends.arm.capabilities.cases.axes import axes
from delegatec.backends.arm.capabilities.cases.control_flow import control_flow
from delegatec.backends.arm.capabilities.cases.convolutions import convolutions
from delegatec.backends.arm.capabilities.cases.elementwise import elementwise
from delegatec.backends.arm.capabilities.cases.moves import moves, transposes
from delegatec.backends.arm.capabilities.cases.pools import pools, products, resizes

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
