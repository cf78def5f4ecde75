# SPDX-License-Identifier: Apache-2.0
"""Models with quantized weights, from torch.export to the program file."""
