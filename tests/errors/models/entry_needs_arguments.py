# SPDX-License-Identifier: Apache-2.0
"""An entry that requires an argument."""


def build(width):
    return width
