# SPDX-License-Identifier: Apache-2.0
"""An example backend: convolution and relu as one instruction, tan as three."""
