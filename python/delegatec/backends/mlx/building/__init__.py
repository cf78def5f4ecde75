# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob under construction."""
