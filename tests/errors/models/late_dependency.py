# SPDX-License-Identifier: Apache-2.0
"""Imports, within the entry, a module that is not among the dependencies."""


def build():
    from layers_of_another_team import Net

    return Net()
