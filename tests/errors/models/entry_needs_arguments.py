# SPDX-License-Identifier: Apache-2.0
"""An entry that wants an argument."""


def build(width):
    return width
