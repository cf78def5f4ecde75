# SPDX-License-Identifier: Apache-2.0
"""Bills of materials of programs, and lists of their licenses.

`bazel build //models:foo_mps --aspects=@rules_delegate//rules:sbom.bzl%sbom --output_groups=sbom`, or a target of
`program_sboms`.
"""

load("//rules/private:sbom.bzl", _SbomInfo = "SbomInfo", _program_licenses = "program_licenses", _program_sboms = "program_sboms", _sbom = "sbom")

SbomInfo = _SbomInfo
program_licenses = _program_licenses
program_sboms = _program_sboms
sbom = _sbom
