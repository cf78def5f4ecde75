# SPDX-License-Identifier: Apache-2.0
"""The names of the program rules, which `bazel query` prints and selects by."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//rules:defs.bzl", "BACKENDS", "delegate_program", "delegate_programs", "exported_program", "quantized_program")

_MODEL = "//tests/rules/models:mlp"

def _kinds_test_impl(ctx):
    env = unittest.begin(ctx)
    for target, kind in ctx.attr.kinds.items():
        asserts.equals(env, "%s_program" % target.replace("kind_", "", 1), kind)
    return unittest.end(env)

_kinds_test = unittest.make(
    _kinds_test_impl,
    attrs = {"kinds": attr.string_dict(doc = "Target, `kind_NAME` -> the name of its rule.")},
)

def kinds_tests(name):
    """Declares the test.

    Args:
        name: the test's name.
    """
    delegate_programs(
        name = "kind",
        backends = BACKENDS.keys() + ["portable"],
        program = _MODEL,
        tags = ["manual"],
    )
    delegate_program(
        name = "kind_delegate",
        backend = "mps",
        program = _MODEL,
        tags = ["manual"],
    )
    exported_program(
        name = "kind_exported",
        srcs = ["//tests/rules/models:mlp.py"],
        entry = "mlp:build",
        tags = ["manual"],
        deps = ["//tests/rules/models:activation"],
    )
    quantized_program(
        name = "kind_quantized",
        calibration_entry = "mlp_samples:build",
        program = _MODEL,
        srcs = ["//tests/rules/models:mlp_samples.py"],
        tags = ["manual"],
    )
    targets = ["kind_" + each for each in BACKENDS.keys() + ["delegate", "exported", "portable", "quantized"]]
    _kinds_test(
        name = name,
        size = "small",
        kinds = {target: native.existing_rule(target)["kind"] for target in targets},
    )
