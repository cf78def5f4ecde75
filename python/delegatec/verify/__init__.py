# SPDX-License-Identifier: Apache-2.0
"""Running programs on the host, and comparing them with eager mode."""

from delegatec.samples.compare import Comparison as Comparison
from delegatec.samples.compare import compare as compare
from delegatec.verify.interpreter import Interpreter as Interpreter
from delegatec.verify.outputs import OutputResult as OutputResult
from delegatec.verify.verification import Verification as Verification
from delegatec.verify.verification import verify_program as verify_program
