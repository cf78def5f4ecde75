# SPDX-License-Identifier: Apache-2.0
"""What rules.md documents: public names, with the rules behind the macros of `//rules:defs.bzl`."""

load(
    "//rules:defs.bzl",
    _AppKernelsInfo = "AppKernelsInfo",
    _DelegateProgramInfo = "DelegateProgramInfo",
    _DelegateRuntimeInfo = "DelegateRuntimeInfo",
    _ExportedProgramInfo = "ExportedProgramInfo",
    _LanguageModelAdapterInfo = "LanguageModelAdapterInfo",
    _LanguageModelInfo = "LanguageModelInfo",
    _ProgramBundleInfo = "ProgramBundleInfo",
    _ProgramRuntimeInfo = "ProgramRuntimeInfo",
    _ProgramVariantsInfo = "ProgramVariantsInfo",
    _ProgramsInfo = "ProgramsInfo",
    _app_budget_test = "app_budget_test",
    _app_kernels = "app_kernels",
    _delegate_programs = "delegate_programs",
    _delegate_runtime = "delegate_runtime",
    _language_model_adapter = "language_model_adapter",
    _language_model_test = "language_model_test",
    _program_accuracy_test = "program_accuracy_test",
    _program_budget_test = "program_budget_test",
    _program_bundle = "program_bundle",
    _program_cc_library = "program_cc_library",
    _program_diff = "program_diff",
    _program_explain = "program_explain",
    _program_inspect = "program_inspect",
    _program_profile = "program_profile",
    _program_report = "program_report",
    _program_runtime = "program_runtime",
    _program_test = "program_test",
    _program_variant = "program_variant",
    _program_variants_rule = "program_variants_rule",
    _programs_aspect = "programs_aspect",
    _selected_operators = "selected_operators",
    _speech_to_text_test = "speech_to_text_test",
)
load("//rules:flatbuffers.bzl", _flatbuffer_py_library = "flatbuffer_py_library")
load("//rules:sbom.bzl", _SbomInfo = "SbomInfo", _program_licenses = "program_licenses", _program_sboms = "program_sboms", _sbom = "sbom")
load("//rules:toolchain.bzl", _DelegatecInfo = "DelegatecInfo", _FlatcInfo = "FlatcInfo", _delegatec_toolchain = "delegatec_toolchain", _flatc_toolchain = "flatc_toolchain")
load("//rules:wheels.bzl", _wheels = "wheels")
load(
    "//rules/private:builtin_backends.bzl",
    _ethos_u_program = "ethos_u_program",
    _mlx_program = "mlx_program",
    _mps_program = "mps_program",
    _tosa_program = "tosa_program",
    _vgf_program = "vgf_program",
    _vulkan_program = "vulkan_program",
    _xnnpack_program = "xnnpack_program",
)
load("//rules/private:delegate_program.bzl", _delegate_program = "delegate_program")
load("//rules/private:exported_program.bzl", _exported_program = "exported_program")
load("//rules/private:language_model.bzl", _language_model = "language_model")
load("//rules/private:portable_program.bzl", _portable_program = "portable_program")
load("//rules/private:program_benchmark.bzl", _program_benchmark = "program_benchmark")
load("//rules/private:program_golden_test.bzl", _program_golden_test = "program_golden_test")
load("//rules/private:program_index.bzl", _program_index = "program_index")
load("//rules/private:quantized_program.bzl", _quantized_program = "quantized_program")
load("//rules/private:speech_to_text.bzl", _speech_to_text = "speech_to_text")
load("//rules/private:vision_language.bzl", _vision_language = "vision_language")

exported_program = _exported_program
app_budget_test = _app_budget_test
app_kernels = _app_kernels
quantized_program = _quantized_program
language_model = _language_model
language_model_adapter = _language_model_adapter
vision_language = _vision_language
speech_to_text = _speech_to_text
delegate_program = _delegate_program
delegate_programs = _delegate_programs
delegate_runtime = _delegate_runtime
ethos_u_program = _ethos_u_program
mlx_program = _mlx_program
mps_program = _mps_program
portable_program = _portable_program
tosa_program = _tosa_program
vgf_program = _vgf_program
vulkan_program = _vulkan_program
xnnpack_program = _xnnpack_program
program_test = _program_test
language_model_test = _language_model_test
speech_to_text_test = _speech_to_text_test
program_runtime = _program_runtime
program_accuracy_test = _program_accuracy_test
program_budget_test = _program_budget_test
program_golden_test = _program_golden_test
program_explain = _program_explain
program_inspect = _program_inspect
program_profile = _program_profile
program_benchmark = _program_benchmark
program_report = _program_report
program_diff = _program_diff
program_index = _program_index
program_bundle = _program_bundle
program_cc_library = _program_cc_library
selected_operators = _selected_operators
program_variant = _program_variant
program_variants_rule = _program_variants_rule
program_licenses = _program_licenses
program_sboms = _program_sboms
programs_aspect = _programs_aspect
sbom = _sbom
flatbuffer_py_library = _flatbuffer_py_library
wheels = _wheels
delegatec_toolchain = _delegatec_toolchain
flatc_toolchain = _flatc_toolchain
AppKernelsInfo = _AppKernelsInfo
ExportedProgramInfo = _ExportedProgramInfo
LanguageModelInfo = _LanguageModelInfo
LanguageModelAdapterInfo = _LanguageModelAdapterInfo
DelegateProgramInfo = _DelegateProgramInfo
DelegateRuntimeInfo = _DelegateRuntimeInfo
ProgramsInfo = _ProgramsInfo
ProgramBundleInfo = _ProgramBundleInfo
ProgramRuntimeInfo = _ProgramRuntimeInfo
ProgramVariantsInfo = _ProgramVariantsInfo
SbomInfo = _SbomInfo
DelegatecInfo = _DelegatecInfo
FlatcInfo = _FlatcInfo
