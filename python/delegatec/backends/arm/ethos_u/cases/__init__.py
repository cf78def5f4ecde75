# SPDX-License-Identifier: Apache-2.0
"""The cases of all operators."""

from typing import Final

from delegatec.backends.arm.ethos_u.cases.axes import axes
from delegatec.backends.arm.ethos_u.cases.convolutions import convolutions
from delegatec.backends.arm.ethos_u.cases.elementwise import elementwise
from delegatec.backends.arm.ethos_u.cases.moves import moves, transposes
from delegatec.backends.arm.ethos_u.cases.pools import pools, products, resizes

CASES: Final = [
    *elementwise(),
    *convolutions(),
    *pools(),
    *products(),
    *resizes(),
    *axes(),
    *moves(),
    *transposes(),
]
