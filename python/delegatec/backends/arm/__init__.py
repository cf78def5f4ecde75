# SPDX-License-Identifier: Apache-2.0
"""The Arm delegates: TOSA graphs, Ethos-U, and VGF."""

from delegatec.backends.arm.backend import TOSA

BACKENDS = (TOSA,)
