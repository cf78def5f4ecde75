# SPDX-License-Identifier: Apache-2.0
"""What Bazel 9 predeclares, in Starlark: the names that our files use, without those that 9 does not have.

From Bazel's reference, "Global functions" for .bzl, BUILD and MODULE.bazel files, and the rules that are
still built in (General, Platforms and Toolchains). The stand-ins accept any attributes and declare nothing.
"""

from __future__ import annotations

from typing import Final

# Names that what follows redefines.
KEPT: Final = "_type_of = type"

# In all files.
COMMON: Final = """
def _nothing(*args, **kwargs):
    return None

def _kind(*args, **kwargs):
    return _nothing

def Label(text):
    repository, _, target = text.rpartition("//")
    package, _, name = target.partition(":")
    return struct(
        name = name or package.rpartition("/")[2],
        package = package,
        repo_name = repository.lstrip("@"),
        same_package_label = Label,
    )

def type(value):
    return "Label" if hasattr(value, "same_package_label") else _type_of(value)

def select(branches, no_match_error = ""):
    return branches.values()[0]

def depset(direct = [], order = "default", transitive = []):
    return struct(to_list = lambda: direct)
"""

_BUILT_IN_RULES: Final = """
    alias config_setting constraint_setting constraint_value filegroup genquery genrule label_flag
    label_setting package_group platform starlark_doc_extract test_suite toolchain toolchain_type
"""
_PACKAGE_FUNCTIONS: Final = """
def glob(include = [], exclude = [], exclude_directories = 1, allow_empty = False):
    return []

def subpackages(include, exclude = [], allow_empty = False):
    return []

def existing_rule(name):
    return {"kind": "filegroup", "name": name}

def existing_rules():
    return {}

def package_name():
    return "package"

def repository_name():
    return "@"

def repo_name():
    return ""

def module_name():
    return "rules_delegate"

def module_version():
    return "0.0.0"

def package_relative_label(text):
    return Label(text)

exports_files = _nothing
"""
_OF_NATIVE: Final = """
    existing_rule existing_rules exports_files glob module_name module_version package_name
    package_relative_label repo_name repository_name subpackages
"""
_ATTRIBUTES: Final = """
    bool int int_list label label_keyed_string_dict label_list output output_list string string_dict
    string_keyed_label_dict string_list string_list_dict
"""
_PLATFORM: Final = "ConstraintSettingInfo ConstraintValueInfo PlatformInfo TemplateVariableInfo ToolchainInfo"
_DEFINITIONS: Final = "aspect macro module_extension repository_rule rule subrule tag_class"
_OTHERS: Final = """
    AnalysisTestResultInfo DefaultInfo FeatureFlagInfo InstrumentedFilesInfo OutputGroupInfo
    PackageSpecificationInfo RunEnvironmentInfo analysis_test_transition configuration_field exec_group
    exec_transition transition visibility
"""
_PROVIDER: Final = """
def provider(doc = "", fields = None, init = None):
    return (_nothing, _nothing) if init else _nothing
"""
_OF_MODULE: Final = """
    archive_override bazel_dep include inject_repo local_path_override module override_repo
    register_execution_platforms register_toolchains single_version_override use_extension use_repo
"""


def _each(names: str, value: str = "_nothing") -> str:
    return "".join(f"{name} = {value}\n" for name in names.split())


def _struct(struct: str, members: str, value: str = "_nothing") -> str:
    """Assigns a struct. `{}` in the value stands for the name of the member."""
    return f"{struct} = struct({', '.join(f'{name} = {value.format(name)}' for name in members.split())})\n"


BUILD: Final = COMMON + _each(_BUILT_IN_RULES) + _PACKAGE_FUNCTIONS + _each("licenses package")
BZL: Final = "".join(
    (
        *(COMMON, _each(_BUILT_IN_RULES), _PACKAGE_FUNCTIONS, _PROVIDER, _each(_OTHERS)),
        _each(_DEFINITIONS, "_kind"),
        _struct("attr", _ATTRIBUTES),
        _struct("config", "bool exec int string string_list string_set target"),
        _struct("config_common", "FeatureFlagInfo toolchain_type"),
        _struct("coverage_common", "instrumented_files_info"),
        _struct("native", _BUILT_IN_RULES + _OF_NATIVE, "{}"),
        _struct("platform_common", _PLATFORM),
        _struct("testing", "ExecutionInfo TestEnvironment analysis_test"),
    )
)
MODULE: Final = COMMON + "def use_repo_rule(file, name):\n    return _nothing\n" + _each(_OF_MODULE)

_CC_RULES: Final = ("cc_binary", "cc_import", "cc_library", "cc_test")

# File of another module -> what it exports and our files load.
LOADED: Final = {
    "@delegatec_row//:row.bzl": "EXEC_COMPATIBLE_WITH = []",
    "@bazel_features//:features.bzl": "bazel_features = struct(globals = struct())",
    "@bazel_skylib//:workspace.bzl": "bazel_skylib_workspace = _nothing",
    "@bazel_skylib//lib:unittest.bzl": (
        "analysistest = struct(begin = _nothing, end = _nothing, make = _kind)\n"
        "asserts = struct()\n"
        "unittest = struct(begin = _nothing, end = _nothing, make = _kind, suite = _nothing)\n"
    ),
    "@bazel_skylib//rules:common_settings.bzl": _each(
        "BuildSettingInfo bool_flag int_flag string_flag string_list_flag"
    ),
    "@rules_cc//cc/common:cc_common.bzl": "cc_common = struct()",
    "@rules_cc//cc/common:cc_info.bzl": "CcInfo = _nothing",
    **{f"@rules_cc//cc:{rule}.bzl": f"{rule} = _nothing" for rule in _CC_RULES},
    "@rules_python//python:defs.bzl": _each("PyInfo py_binary py_library py_test"),
}
