# SPDX-License-Identifier: Apache-2.0
"""Weights of eight and four bits."""
