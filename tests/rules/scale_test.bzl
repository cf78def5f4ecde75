# SPDX-License-Identifier: Apache-2.0
"""What a target costs in a workspace with thousands of them: its actions, its script, and its runfiles."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")

# A launcher's script contains labels and paths of its target, but none of the compiler's.
_MOST_BYTES = 800

# The compiler is one file there, not one for each of its sources.
_MOST_RUNFILES = 16

def _cost_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    actions = analysistest.target_actions(env)
    mnemonics = sorted([action.mnemonic for action in actions])
    asserts.equals(env, sorted(ctx.attr.mnemonics), [each for each in mnemonics if each not in _OF_BAZEL])
    for action in actions:
        if action.mnemonic == "FileWrite":
            asserts.true(env, len(action.content) < _MOST_BYTES, "the script has %d bytes" % len(action.content))
            asserts.false(env, "site-packages" in action.content, "the script repeats the compiler's import path")
    files = target[DefaultInfo].default_runfiles.files.to_list()
    asserts.true(env, 0 < len(files) and len(files) < _MOST_RUNFILES, "%d runfiles" % len(files))
    return analysistest.end(env)

# Those that Bazel adds to each executable.
_OF_BAZEL = ["Middleman", "SourceSymlinkManifest", "SymlinkTree", "TestRunner", "RepoMappingManifest"]

_cost_test = analysistest.make(
    _cost_test_impl,
    attrs = {"mnemonics": attr.string_list()},
)

_LOWERED = ["DelegateExtract", "DelegateLocate", "DelegateLower", "DelegateRecord", "DelegateReport"]

# Target -> its actions.
_COSTS = {
    "mlp": ["DelegateWeights", "TorchExport"],
    "mlp.inspect": ["FileWrite"],
    "mlp_int8_board_budget_test": ["FileWrite"],
    "mlp_int8_ethos_u": _LOWERED + ["DelegateHost"],
    "mlp_mps": _LOWERED,
    "mlp_mps.explain": ["FileWrite"],
    "mlp_mps.inspect": ["FileWrite"],
    "mlp_mps.report": ["FileWrite"],
    "mlp_mps_test": ["FileWrite"],
    "mlp_portable": _LOWERED,
}

def scale_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    for target, mnemonics in _COSTS.items():
        _cost_test(
            name = "%s_%s" % (name, target),
            size = "small",
            mnemonics = mnemonics,
            target_under_test = "//tests/rules/models:" + target,
        )
    native.test_suite(
        name = name,
        tests = ["%s_%s" % (name, target) for target in _COSTS],
    )
