# SPDX-License-Identifier: Apache-2.0
"""The public face of the rules."""

load("//rules/private:program_test.bzl", _program_test = "program_test")
load(
    "//rules/private:programs.bzl",
    _delegate_program = "delegate_program",
    _delegate_programs = "delegate_programs",
    _exported_program = "exported_program",
    _mps_program = "mps_program",
    _portable_program = "portable_program",
)
load(":providers.bzl", _DelegateProgramInfo = "DelegateProgramInfo", _ExportedProgramInfo = "ExportedProgramInfo")

DelegateProgramInfo = _DelegateProgramInfo
ExportedProgramInfo = _ExportedProgramInfo
delegate_program = _delegate_program
delegate_programs = _delegate_programs
exported_program = _exported_program
mps_program = _mps_program
portable_program = _portable_program
program_test = _program_test
