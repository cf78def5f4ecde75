# SPDX-License-Identifier: Apache-2.0
"""Imports a module that is not among the dependencies."""

import layers_of_another_team


def build():
    return layers_of_another_team.model()
