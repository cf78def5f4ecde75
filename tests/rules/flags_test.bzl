# SPDX-License-Identifier: Apache-2.0
"""The flags of `//config`: values of options, passes to print and verify, and workers."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "BACKENDS", "DelegateProgramInfo", "delegate_program", "delegate_programs", "mps_program")
load("//rules/private:delegatec_action.bzl", "ACTION_ATTRS", "action_requirements")
load("//rules/private:settings.bzl", "option_settings")
load(":actions.bzl", "action_of", "flags_of")

_MODEL = "//tests/rules/models:mlp"
_RequirementsInfo = provider(
    doc = "What actions of the compiler require.",
    fields = {"requirements": "dict of string to string"},
)

def _requirements_impl(ctx):
    return [_RequirementsInfo(requirements = action_requirements(ctx))]

_requirements = rule(
    implementation = _requirements_impl,
    attrs = ACTION_ATTRS,
)

def _workers_test_impl(ctx):
    env = analysistest.begin(ctx)
    requirements = analysistest.target_under_test(env)[_RequirementsInfo].requirements
    asserts.equals(env, "1", requirements["block-network"])
    asserts.equals(env, ctx.attr.has_workers, "supports-workers" in requirements)
    return analysistest.end(env)

_WORKERS_ATTRS = {"has_workers": attr.bool()}

_workers_test = analysistest.make(_workers_test_impl, attrs = _WORKERS_ATTRS)
_no_workers_test = analysistest.make(
    _workers_test_impl,
    attrs = _WORKERS_ATTRS,
    config_settings = {str(Label("//config:workers")): False},
)

def _precision_test_impl(ctx):
    env = analysistest.begin(ctx)
    options = flags_of(action_of(env, "DelegateLower")).get("option", [])
    asserts.equals(env, ctx.attr.options, [option for option in options if "precision" in option])
    info = analysistest.target_under_test(env)[DelegateProgramInfo]
    asserts.equals(env, ctx.attr.options, [
        "%s=%s" % pair
        for pair in sorted(info.options.items())
        if "precision" in pair[0]
    ])
    return analysistest.end(env)

_PRECISION_ATTRS = {"options": attr.string_list()}

_default_test = analysistest.make(_precision_test_impl, attrs = _PRECISION_ATTRS)
_half_test = analysistest.make(
    _precision_test_impl,
    attrs = _PRECISION_ATTRS,
    config_settings = {
        str(Label("//config:" + setting)): "fp16"
        for setting in option_settings(BACKENDS)
    },
)

def _debug_test_impl(ctx):
    env = analysistest.begin(ctx)
    flags = flags_of(action_of(env, "DelegateLower"))
    asserts.equals(env, ["legalize", "to_backend"], flags["print-after"])
    asserts.equals(env, [""], flags["verify-passes"])

    # Once is enough.
    asserts.false(env, "print-after" in flags_of(action_of(env, "DelegateRecord")))
    return analysistest.end(env)

_debug_test = analysistest.make(
    _debug_test_impl,
    config_settings = {
        str(Label("//config:print_after")): "legalize,to_backend",
        str(Label("//config:verify_passes")): True,
    },
)

# Target -> its options of precision by default, and with all flags set to fp16.
_PRECISIONS = dict(
    {
        "flags_%s" % backend: (["precision=fp32"], ["precision=fp16"])
        for backend, _, _ in option_settings(BACKENDS).values()
    },
    flags_both = ([], ["mps.precision=fp16", "vulkan.precision=fp16"]),
    flags_one_set = (["mps.precision=fp32"], ["mps.precision=fp32", "vulkan.precision=fp16"]),
    flags_set = (["precision=fp32"], ["precision=fp32"]),
    flags_portable = ([], []),
)

def flags_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    delegate_programs(
        name = "flags",
        backends = [backend for backend, _, _ in option_settings(BACKENDS).values()] + ["portable"],
        program = _MODEL,
        tags = ["manual"],
    )
    mps_program(
        name = "flags_set",
        precision = "fp32",
        program = _MODEL,
        tags = ["manual"],
    )
    delegate_program(
        name = "flags_both",
        backends = ["mps", "vulkan"],
        program = _MODEL,
        tags = ["manual"],
    )
    delegate_program(
        name = "flags_one_set",
        backends = ["mps", "vulkan"],
        options = {"mps.precision": "fp32"},
        program = _MODEL,
        tags = ["manual"],
    )
    _requirements(
        name = "flags_requirements",
        tags = ["manual"],
    )
    tests = []
    for target, (default, half) in _PRECISIONS.items():
        _default_test(name = target + "_default_test", size = "small", options = default, target_under_test = ":" + target)
        _half_test(name = target + "_half_test", size = "small", options = half, target_under_test = ":" + target)
        tests += [target + "_default_test", target + "_half_test"]
    _debug_test(name = "flags_debug_test", size = "small", target_under_test = ":flags_mps")
    _workers_test(name = "flags_workers_test", size = "small", has_workers = True, target_under_test = ":flags_requirements")
    _no_workers_test(name = "flags_no_workers_test", size = "small", target_under_test = ":flags_requirements")
    native.test_suite(
        name = name,
        tests = tests + ["flags_debug_test", "flags_no_workers_test", "flags_workers_test"],
    )
