# SPDX-License-Identifier: Apache-2.0
"""Devices: their limits, and the sizes for which their drivers compute wrong results."""
