# SPDX-License-Identifier: Apache-2.0
"""The public face of the rules, and the table of the built-in backends.

A backend is a package in `python/delegatec/backends` and, here, a row of BACKENDS with its rule. Rules, the
compiler's build, pages, tests and benchmarks take from the row what backends there are and what options they have.
"""

load("//rules/private:backend_program.bzl", "backend_program")
load("//rules/private:backends.bzl", "backend")
load("//rules/private:options.bzl", "option")
load("//rules/private:program_test.bzl", _program_test = "program_test")
load(
    "//rules/private:programs.bzl",
    "inspected",
    "lowered_for_each",
    _delegate_program = "delegate_program",
    _exported_program = "exported_program",
    _portable_program = "portable_program",
)
load(":providers.bzl", _DelegateProgramInfo = "DelegateProgramInfo", _ExportedProgramInfo = "ExportedProgramInfo")

DelegateProgramInfo = _DelegateProgramInfo
ExportedProgramInfo = _ExportedProgramInfo
delegate_program = _delegate_program
exported_program = _exported_program
portable_program = _portable_program
program_test = _program_test

# Backend -> what it is, and its options, which the backend's own `options` repeat; //tests/rules:backends_test compares.
BACKENDS = {
    "mps": backend(
        options = {
            "fp16_overflow": option(
                default = "error",
                doc = "with fp16, a weight or number beyond +-65504 is an error, or, with saturate, becomes that; the " +
                      "lowest and highest float32 always do",
                values = ["error", "saturate"],
            ),
            "int4": option(
                default = "int8",
                doc = "int8 stores weights that are quantised to four bits in a byte each, for every system; packed " +
                      "stores two in a byte, for macOS 15 and iOS 18 or later, and computes such weights in float16",
                values = ["int8", "packed"],
            ),
            "precision": option(
                default = "fp32",
                doc = "fp16 stores float32 weights as float16 and computes in it; inputs and outputs stay float32",
                values = ["fp32", "fp16"],
            ),
        },
        title = "Apple's Metal Performance Shaders, fp32 and fp16, 8-bit and 4-bit weights",
    ),
}

_mps_program = backend_program("mps", BACKENDS["mps"])

def mps_program(name, program, **kwargs):
    """Lowers an exported program for Apple's Metal Performance Shaders.

    Args:
        name: the target's name; the program is `NAME.pte`, and `NAME.inspect` prints what is in it.
        program: the `exported_program`.
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    inspected(_mps_program, name = name, program = program, **kwargs)

_PROGRAMS = {
    "mps": mps_program,
    "portable": portable_program,
}

def delegate_programs(name, program, backends, **kwargs):
    """Lowers one exported program for several backends, each with its defaults, as `NAME_BACKEND`.

    Args:
        name: prefix of the targets' names.
        program: the `exported_program`.
        backends: names of built-in backends.
        **kwargs: the attributes of every rule; and the rules of what is delegated, for those that delegate.
    """
    lowered_for_each(_PROGRAMS, name = name, program = program, backends = backends, **kwargs)
