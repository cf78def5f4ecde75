# SPDX-License-Identifier: Apache-2.0
"""The outputs and actions of `flatbuffer_py_library`, and a use of its module."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@rules_python//python:defs.bzl", "PyInfo")
load("//rules:flatbuffers.bzl", "flatbuffer_py_library")
load("//rules/private:labels.bzl", "repository_name")
load("//rules/private/testing:pytest.bzl", "pytest_test")
load(":actions.bzl", "action_of", "names_of")

def _library_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    asserts.equals(env, ["drawing.py"], names_of(action_of(env, "FlatcPython").outputs))
    asserts.true(env, ctx.workspace_name + "/tests/rules" in target[PyInfo].imports.to_list())
    asserts.true(env, repository_name(Label("@delegatec_pip_compiler//:site-packages")) + "/site-packages" in target[PyInfo].imports.to_list())
    return analysistest.end(env)

_library_test = analysistest.make(_library_test_impl)

def flatbuffer_py_library_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    flatbuffer_py_library(
        name = "drawing_py",
        includes = ["schemas/point.fbs"],
        package = "test_schemas",
        schema = "schemas/drawing.fbs",
    )
    _library_test(
        name = name + "_declares",
        size = "small",
        target_under_test = ":drawing_py",
    )
    pytest_test(
        name = name + "_round_trip",
        srcs = ["flatbuffer_round_trip_test.py"],
        deps = [":drawing_py"],
    )
    native.test_suite(
        name = name,
        tests = [
            name + "_declares",
            name + "_round_trip",
        ],
    )
