# SPDX-License-Identifier: Apache-2.0
"""What backends are made of: operator tables, a partitioner that reads them, constants, liveness.

Nothing here knows a format. A backend gives the data: its rows, its dtypes, its limits.
"""
