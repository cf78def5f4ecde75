# SPDX-License-Identifier: Apache-2.0
"""Composes chains of operators that only move elements, and replaces them by shorter ones."""
