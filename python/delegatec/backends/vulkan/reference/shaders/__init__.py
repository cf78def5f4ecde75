# SPDX-License-Identifier: Apache-2.0
"""Tables of the runtime's shaders, in the form that `kernels.py` describes."""
