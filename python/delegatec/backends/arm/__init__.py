# SPDX-License-Identifier: Apache-2.0
"""The Arm delegates: TOSA graphs, Ethos-U, and VGF."""

from delegatec.backends.arm.backend import TOSA
from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.vgf.backend import VGF

BACKENDS = (TOSA, ETHOS_U, VGF)
