# SPDX-License-Identifier: Apache-2.0
"""Has a number where the entry should be."""

build = 3
