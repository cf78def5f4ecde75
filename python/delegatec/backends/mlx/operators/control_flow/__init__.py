# SPDX-License-Identifier: Apache-2.0
"""Branches and loops."""
