# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters."""
