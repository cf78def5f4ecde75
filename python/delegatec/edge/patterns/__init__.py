# SPDX-License-Identifier: Apache-2.0
"""Patterns of calls, and the driver of passes that rewrite their matches."""
