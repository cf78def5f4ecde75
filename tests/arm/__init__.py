# SPDX-License-Identifier: Apache-2.0
"""Independent programs that check TOSA graphs and VGF programs. For tests only."""
