# SPDX-License-Identifier: Apache-2.0
"""Functions that become one delegate, with the operations of its blob; the stock runtime runs them, too."""
