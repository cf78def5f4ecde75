# SPDX-License-Identifier: Apache-2.0
"""Arm delegates: TOSA, Ethos-U and VGF."""
