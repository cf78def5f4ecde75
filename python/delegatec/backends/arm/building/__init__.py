# SPDX-License-Identifier: Apache-2.0
"""TOSA graphs under construction."""
