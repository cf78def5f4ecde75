# SPDX-License-Identifier: Apache-2.0
"""Lowering of complex values to pairs of real ones: the runtime has no complex numbers."""

from delegatec.edge.complex.lower import lower_complex as lower_complex
