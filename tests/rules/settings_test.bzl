# SPDX-License-Identifier: Apache-2.0
"""Attributes that are a `select`, and the flags that replace the programs that backends run."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "DelegateProgramInfo", "delegate_program", "ethos_u_program", "mps_program", "portable_program")
load(":actions.bzl", "action_of", "flags_of")

def _flags_test_impl(ctx):
    env = analysistest.begin(ctx)
    flags = flags_of(action_of(env, "DelegateLower"))
    for flag, values in ctx.attr.flags.items():
        asserts.equals(env, values, flags.get(flag, []))
    backends = analysistest.target_under_test(env)[DelegateProgramInfo].backends
    asserts.equals(env, ctx.attr.backends, backends)
    return analysistest.end(env)

_ATTRS = {
    "backends": attr.string_list(),
    "flags": attr.string_list_dict(),
}

_flags_test = analysistest.make(_flags_test_impl, attrs = _ATTRS)

def _tool_test_impl(ctx):
    env = analysistest.begin(ctx)
    action = action_of(env, "DelegateLower")
    inputs = [file.short_path for file in action.inputs.to_list()]
    asserts.true(env, "tests/rules/tools/ethosu/vela.py" in inputs, "the lowering does not read the other Vela")
    asserts.equals(env, [], [path for path in inputs if "delegatec_pip_vela" in path])
    roots = flags_of(action)["import-path"]
    asserts.true(env, "tests/rules/tools" in roots, "%s lacks the other Vela" % roots)
    return analysistest.end(env)

_tool_test = analysistest.make(
    _tool_test_impl,
    config_settings = {str(Label("//config:vela")): str(Label("//tests/rules/tools:vela"))},
)

def _always(value):
    """A select whose value no macro may look at."""
    return select({"//conditions:default": value})

def settings_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    mps_program(
        name = "mlp_selected",
        block_operators = _always(["aten.relu"]),
        external_weights = _always(True),
        method_backends = _always({"forward": ["mps"]}),
        minimum_nodes = _always(2),
        precision = _always("fp16"),
        program = _always("//tests/rules/models:mlp"),
        require_full_delegation = _always(True),
        segment_alignment = _always(4096),
        tags = ["manual"],
    )
    delegate_program(
        name = "mlp_selected_backends",
        backends = _always(["vulkan"]),
        options = _always({"precision": "fp16"}),
        program = "//tests/rules/models:mlp",
        tags = ["manual"],
    )
    portable_program(
        name = "mlp_selected_portable",
        constant_alignment = _always(64),
        memories = _always({"tightly_coupled": "64k", "sram": "512k", "dram": "32m"}),
        plan_inputs = _always(False),
        program = _always("//tests/rules/models:mlp"),
        tags = ["manual"],
    )
    ethos_u_program(
        name = "mlp_other_vela",
        accelerator = _always("ethos-u85-256"),
        program = "//tests/rules/models:mlp",
        tags = ["manual"],
    )
    _flags_test(
        name = name + "_rule",
        size = "small",
        backends = ["mps"],
        flags = {
            "block-operator": ["aten.relu"],
            "external-weights": [""],
            "method-backend": ["forward=mps"],
            "minimum-nodes": ["2"],
            "option": ["fp16_overflow=error", "int4=int8", "precision=fp16"],
            "require-full-delegation": [""],
            "segment-alignment": ["4096"],
        },
        target_under_test = ":mlp_selected",
    )
    _flags_test(
        name = name + "_backends",
        size = "small",
        backends = ["vulkan"],
        flags = {
            "backend": ["vulkan"],
            "option": ["precision=fp16"],
        },
        target_under_test = ":mlp_selected_backends",
    )
    _flags_test(
        name = name + "_portable",
        size = "small",
        flags = {
            "constant-alignment": ["64"],
            "memory": ["tightly_coupled=64k", "sram=512k", "dram=32m"],
            "no-plan-inputs": [""],
        },
        target_under_test = ":mlp_selected_portable",
    )
    _tool_test(
        name = name + "_tool",
        size = "small",
        target_under_test = ":mlp_other_vela",
    )
    native.test_suite(
        name = name,
        tests = [name + suffix for suffix in ["_backends", "_portable", "_rule", "_tool"]],
    )
