# SPDX-License-Identifier: Apache-2.0
"""Programs: memory planning, emission, and the .pte file."""

from delegatec.program.emitted import EmittedProgram as EmittedProgram
from delegatec.program.emitter import emit as emit
from delegatec.program.memory_plan import MemoryPlan as MemoryPlan
from delegatec.program.writer import write_program as write_program
