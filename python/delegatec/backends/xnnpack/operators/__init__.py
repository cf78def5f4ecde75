# SPDX-License-Identifier: Apache-2.0
"""The table of operators: which calls the delegate supports, and how each is lowered."""
