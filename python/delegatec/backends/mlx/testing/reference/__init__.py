# SPDX-License-Identifier: Apache-2.0
"""Cases of nodes for the reference executor."""
