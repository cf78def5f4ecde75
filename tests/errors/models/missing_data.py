# SPDX-License-Identifier: Apache-2.0
"""Asks for a data file that is declared, and does not exist."""

import delegatec


def build():
    return delegatec.data_path("missing.pt")
