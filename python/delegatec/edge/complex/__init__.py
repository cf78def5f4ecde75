# SPDX-License-Identifier: Apache-2.0
"""Complex values inside of a model, as pairs of real ones: the runtime has no complex numbers."""

from delegatec.edge.complex.lower import lower_complex as lower_complex
