# SPDX-License-Identifier: Apache-2.0
"""The edge program: normal form, passes, verifier and printer."""

from delegatec.edge.convert import KERNEL_COMPOSITES as KERNEL_COMPOSITES
from delegatec.edge.convert import to_edge as to_edge
from delegatec.edge.printer import print_program as print_program
from delegatec.edge.program import EdgeProgram as EdgeProgram
