# SPDX-License-Identifier: Apache-2.0
"""The text of labels, which is the same with a WORKSPACE file and with modules."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//rules/private:labels.bzl", "label_text", "repository_name")

def _label_text_test_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, "//tests/rules:" + ctx.label.name, label_text(ctx.label))
    asserts.equals(env, "//rules:rules", label_text(Label("//rules:rules")))
    asserts.equals(env, "", repository_name(Label("//rules:rules")))

    # With modules, the name of another repository is longer.
    other = Label("@delegatec_python//:bin/python3")
    asserts.true(env, "delegatec_python" in repository_name(other))
    asserts.true(env, label_text(other).endswith("delegatec_python//:bin/python3"), label_text(other))
    return unittest.end(env)

_label_text_test = unittest.make(_label_text_test_impl)

def labels_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    _label_text_test(
        name = name + "_text",
        size = "small",
    )
    native.test_suite(
        name = name,
        tests = [name + "_text"],
    )
