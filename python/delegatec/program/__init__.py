# SPDX-License-Identifier: Apache-2.0
"""Programs: memory planning, emission, and `.pte` and `.ptd` files."""

from delegatec.program.emitted import EmittedProgram as EmittedProgram
from delegatec.program.emitter import emit as emit
from delegatec.program.external import ExternalWeights as ExternalWeights
from delegatec.program.external import weights_of as weights_of
from delegatec.program.file.flat_tensor import write_flat_tensors as write_flat_tensors
from delegatec.program.file.writer import write_program as write_program
from delegatec.program.options import Memory as Memory
from delegatec.program.options import ProgramOptions as ProgramOptions
from delegatec.program.planning.memory_plan import MemoryPlan as MemoryPlan
