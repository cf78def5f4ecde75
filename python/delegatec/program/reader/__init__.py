# SPDX-License-Identifier: Apache-2.0
"""The reader: any `.pte` or `.ptd` as plain immutable values, with all offsets checked."""

from delegatec.program.reader.flat_tensor import FlatTensors as FlatTensors
from delegatec.program.reader.flat_tensor import parse_flat_tensors as parse_flat_tensors
from delegatec.program.reader.flat_tensor import read_flat_tensors as read_flat_tensors
from delegatec.program.reader.read import parse_program as parse_program
from delegatec.program.reader.read import read_program as read_program
