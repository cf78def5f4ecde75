# SPDX-License-Identifier: Apache-2.0
"""The reader: any .pte, checked in every offset, as plain immutable values."""

from delegatec.program.reader.read import parse_program as parse_program
from delegatec.program.reader.read import read_program as read_program
