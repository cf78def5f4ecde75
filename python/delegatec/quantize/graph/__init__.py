# SPDX-License-Identifier: Apache-2.0
"""What the graph of a model has before quantization: control flow, constants, state, lines of calls."""
