# SPDX-License-Identifier: Apache-2.0
"""Interfaces of backends and partitioners, their arguments and results."""
