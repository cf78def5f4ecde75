# SPDX-License-Identifier: Apache-2.0
"""Chains of operators that only move elements, composed and replaced by shorter ones."""
