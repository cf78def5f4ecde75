# SPDX-License-Identifier: Apache-2.0
"""Models with quantised weights, from torch.export to the program file."""
