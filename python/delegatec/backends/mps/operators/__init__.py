# SPDX-License-Identifier: Apache-2.0
"""The operators that the MPS delegate takes: tables of rows, one file for each family."""
