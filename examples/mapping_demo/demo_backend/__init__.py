# SPDX-License-Identifier: Apache-2.0
"""A backend to learn from: convolution and rectifier as one instruction, the tangent as three."""
