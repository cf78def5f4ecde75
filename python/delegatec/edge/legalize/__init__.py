# SPDX-License-Identifier: Apache-2.0
"""Legalization: targets determine which calls are legal, rules rewrite the others."""
