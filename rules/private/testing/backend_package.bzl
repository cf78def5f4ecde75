# SPDX-License-Identifier: Apache-2.0
"""`backend_package`: the targets of a backend in `python/delegatec/backends`."""

load("@rules_python//python:defs.bzl", "py_binary", "py_library")
load(":pytest.bzl", "pytest_test")

_HELPERS = [
    "**/testing.py",
    "**/testing/**/*.py",
]

def backend_package(name, schema, other_schemas = [], tools = []):
    """Declares the library of a backend, `testing` with the helpers of its tests, the tests, and `record`.

    `record` runs the tests of operators, and writes `operators/recorded.json`.

    Args:
        name: the backend's name, and that of its library.
        schema: the schema of its blobs, in `//schemas`.
        other_schemas: schemas of formats that its blobs contain.
        tools: programs that it runs, as in `rules/private/backend_tools.bzl`.
    """
    helpers = native.glob(_HELPERS, allow_empty = True)
    operators_tests = native.glob(["operators/**/*_test.py"], allow_empty = True)
    conftest = ["operators/conftest.py"]
    py_library(
        name = name,
        srcs = native.glob(["**/*.py"], exclude = _HELPERS + conftest + ["**/*_test.py"]),
        data = ["operators/recorded.json"] + native.glob(["*/builtin/*.json"], allow_empty = True),
        imports = ["../../.."],
        deps = [
            "//python/delegatec/backends/common",
            "//python/delegatec/delegation",
            "//python/delegatec/diagnostics",
            "//python/delegatec/edge",
            "//python/delegatec/flatbuffer",
            "@delegatec_pip_compiler//:lib",
        ] + ["//schemas:%s_py" % each for each in [schema] + other_schemas],
    )
    py_library(
        name = "testing",
        testonly = True,
        srcs = helpers,
        deps = [
            "//python/delegatec/backends",
            "//python/delegatec/backends/common:testing",
            "//python/delegatec/edge:testing",
        ] + tools,
    )
    pytest_test(
        name = name + "_test",
        srcs = native.glob(["**/*_test.py"], exclude = ["operators/**"]),
        data = [
            "//schemas:%s.fbs" % schema,
            "//third_party/flatc",
        ],
        deps = [":testing"],
    )
    pytest_test(
        name = "operators_test",
        # In one process: the operators of all their lowerings are compared with operators/recorded.json.
        srcs = conftest + operators_tests,
        timeout = "eternal",
        deps = [
            ":testing",
            "//tests/operators",
        ],
    )
    py_binary(
        name = "record",
        testonly = True,
        srcs = operators_tests + conftest + ["//rules/private/testing:pytest_main.py"],
        args = ["--record"] + ["$(rootpath %s)" % test for test in operators_tests],
        main = "//rules/private/testing:pytest_main.py",
        tags = ["manual"],
        deps = [
            ":testing",
            "//rules/private/testing:plugins",
            "//tests/operators",
            "@delegatec_pip_test//:lib",
        ],
    )
