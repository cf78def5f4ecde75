# SPDX-License-Identifier: Apache-2.0
"""The operators of the MPS delegate: tables of rows, one file per family."""
