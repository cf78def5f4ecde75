# SPDX-License-Identifier: Apache-2.0
"""The edge program: normal form, passes, verifier and printer."""

from delegatec.edge.program import EdgeProgram as EdgeProgram
