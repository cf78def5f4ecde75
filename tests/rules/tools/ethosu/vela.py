# SPDX-License-Identifier: Apache-2.0
"""Takes the place of Vela, for analysis only."""
