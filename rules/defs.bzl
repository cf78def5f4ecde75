# SPDX-License-Identifier: Apache-2.0
"""The public rules, and the table of the built-in backends."""

load("//rules/private:app_budget_test.bzl", _app_budget_test = "app_budget_test")
load("//rules/private:app_kernels.bzl", _app_kernels = "app_kernels")
load(
    "//rules/private:builtin_backends.bzl",
    _BACKENDS = "BACKENDS",
    _ethos_u_program = "ethos_u_program",
    _mlx_program = "mlx_program",
    _mps_program = "mps_program",
    _tosa_program = "tosa_program",
    _vgf_program = "vgf_program",
    _vulkan_program = "vulkan_program",
    _xnnpack_program = "xnnpack_program",
)
load("//rules/private:delegate_runtime.bzl", _delegate_runtime = "delegate_runtime")
load("//rules/private:language_model.bzl", _language_model = "language_model")
load("//rules/private:language_model_adapter.bzl", _language_model_adapter = "language_model_adapter")
load("//rules/private:language_model_test.bzl", _language_model_test = "language_model_test")
load("//rules/private:program_accuracy_test.bzl", _program_accuracy_test = "program_accuracy_test")
load("//rules/private:program_benchmark.bzl", _program_benchmark = "declare_benchmark")
load("//rules/private:program_budget_test.bzl", _program_budget_test = "program_budget_test")
load("//rules/private:program_bundle.bzl", _ProgramBundleInfo = "ProgramBundleInfo", _program_bundle = "program_bundle")
load("//rules/private:program_cc_library.bzl", _program_cc_library = "program_cc_library")
load("//rules/private:program_diff.bzl", _program_diff = "program_diff")
load("//rules/private:program_explain.bzl", _program_explain = "program_explain")
load("//rules/private:program_golden_test.bzl", _program_golden_test = "declare_golden_test")
load("//rules/private:program_index.bzl", _ProgramsInfo = "ProgramsInfo", _program_index = "declare_index", _programs_aspect = "programs_aspect")
load("//rules/private:program_inspect.bzl", _program_inspect = "program_inspect")
load("//rules/private:program_profile.bzl", _program_profile = "program_profile")
load("//rules/private:program_report.bzl", _program_report = "program_report")
load("//rules/private:program_runtime.bzl", _ProgramRuntimeInfo = "ProgramRuntimeInfo", _program_runtime = "program_runtime")
load("//rules/private:program_test.bzl", _program_test = "program_test")
load("//rules/private:program_variant.bzl", _program_variant = "program_variant")
load("//rules/private:program_variants.bzl", _program_variants_rule = "program_variants_rule")
load(
    "//rules/private:programs.bzl",
    "checkpoint_programs",
    "lowered",
    "lowered_for_each",
    _delegate_program = "delegate_program",
    _exported_program = "exported_program",
    _portable_program = "portable_program",
    _quantized_program = "quantized_program",
)
load("//rules/private:selected_operators.bzl", _selected_operators = "selected_operators")
load("//rules/private:speech_to_text.bzl", _speech_to_text = "speech_to_text")
load("//rules/private:speech_to_text_test.bzl", _speech_to_text_test = "speech_to_text_test")
load("//rules/private:vision_language.bzl", _vision_language = "vision_language")
load("//rules/private:vulkan_device.bzl", "vulkan_device")
load(":providers.bzl", _AppKernelsInfo = "AppKernelsInfo", _DelegateProgramInfo = "DelegateProgramInfo", _DelegateRuntimeInfo = "DelegateRuntimeInfo", _ExportedProgramInfo = "ExportedProgramInfo", _LanguageModelAdapterInfo = "LanguageModelAdapterInfo", _LanguageModelInfo = "LanguageModelInfo", _ProgramVariantsInfo = "ProgramVariantsInfo")

AppKernelsInfo = _AppKernelsInfo
BACKENDS = _BACKENDS
DelegateProgramInfo = _DelegateProgramInfo
DelegateRuntimeInfo = _DelegateRuntimeInfo
ExportedProgramInfo = _ExportedProgramInfo
LanguageModelAdapterInfo = _LanguageModelAdapterInfo
LanguageModelInfo = _LanguageModelInfo
ProgramBundleInfo = _ProgramBundleInfo
ProgramRuntimeInfo = _ProgramRuntimeInfo
ProgramVariantsInfo = _ProgramVariantsInfo
ProgramsInfo = _ProgramsInfo
app_budget_test = _app_budget_test
app_kernels = _app_kernels
delegate_program = _delegate_program
delegate_runtime = _delegate_runtime
exported_program = _exported_program
language_model_adapter = _language_model_adapter
language_model_test = _language_model_test
portable_program = _portable_program
program_accuracy_test = _program_accuracy_test
program_benchmark = _program_benchmark
program_budget_test = _program_budget_test
program_bundle = _program_bundle
program_cc_library = _program_cc_library
program_diff = _program_diff
program_explain = _program_explain
program_golden_test = _program_golden_test
program_index = _program_index
program_inspect = _program_inspect
program_profile = _program_profile
program_report = _program_report
program_runtime = _program_runtime
program_test = _program_test
program_variant = _program_variant
program_variants_rule = _program_variants_rule
programs_aspect = _programs_aspect
quantized_program = _quantized_program
selected_operators = _selected_operators
speech_to_text_test = _speech_to_text_test

def ethos_u_program(name, program, **kwargs):
    """Lowers an exported program for Arm's Ethos-U NPUs, with Vela.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    lowered(_ethos_u_program, name = name, program = program, **kwargs)

def mlx_program(name, program, **kwargs):
    """Lowers an exported program for Apple's GPUs, with MLX.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    lowered(_mlx_program, name = name, program = program, **kwargs)

def mps_program(name, program, **kwargs):
    """Lowers an exported program for Apple's Metal Performance Shaders.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    lowered(_mps_program, name = name, program = program, **kwargs)

def tosa_program(name, program, **kwargs):
    """Lowers an exported program to graphs of Arm's TOSA operators.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    lowered(_tosa_program, name = name, program = program, **kwargs)

def vgf_program(name, program, **kwargs):
    """Lowers an exported program to VGF, for Vulkan devices with Arm's extensions for tensors and graphs.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    lowered(_vgf_program, name = name, program = program, **kwargs)

def vulkan_program(name, program, device = None, **kwargs):
    """Lowers an exported program for Vulkan, with layouts of memory chosen for the fewest copies between them.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        device: the device that runs it: the name of a known one, such as `adreno-840`, or the label of a file (`.json`).
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    lowered(_vulkan_program, name = name, device = vulkan_device(name, device), program = program, **kwargs)

def xnnpack_program(name, program, **kwargs):
    """Lowers an exported program for CPUs, with XNNPACK.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        **kwargs: the backend's options, and the attributes of every program rule that delegates.
    """
    lowered(_xnnpack_program, name = name, program = program, **kwargs)

_PROGRAMS = {
    "ethos_u": ethos_u_program,
    "mlx": mlx_program,
    "mps": mps_program,
    "portable": portable_program,
    "tosa": tosa_program,
    "vgf": vgf_program,
    "vulkan": vulkan_program,
    "xnnpack": xnnpack_program,
}

def delegate_programs(name, program, backends, **kwargs):
    """Lowers one exported program for several backends, each with its defaults, as `NAME_BACKEND`.

    Args:
        name: prefix of the targets' names.
        program: the `exported_program`.
        backends: names of built-in backends.
        **kwargs: the attributes of every rule; delegation rules apply to the backends that delegate.
    """
    lowered_for_each(_PROGRAMS, name = name, program = program, backends = backends, **kwargs)

def language_model(name, checkpoint, backends = [], **kwargs):
    """Exports a language model from the folder of its checkpoint, and lowers it for backends, as `NAME_BACKEND`.

    `NAME.tokenizer` are the files of its tokenizer, in one directory, for the app.

    Args:
        name: the target's name: an exported program, like that of `exported_program`.
        checkpoint: the files of the published folder.
        backends: names of built-in backends; a program rule with `program = ":NAME"` sets options of a backend.
        **kwargs: `weights`, `group_size`, `embedding`, `activation`, `cache`, `context`, `prefill`, `adapter_rank`,
            `adapter_modules`, `draft_tokens`, `experts`, `samples`, `license`, `license_files`, `weights_alignment`, and
            the attributes of every rule.
    """
    checkpoint_programs(_language_model, _PROGRAMS, name, checkpoint, backends, kwargs)

def vision_language(name, checkpoint, backends = [], **kwargs):
    """Exports a language model of images and text from its checkpoint, and lowers it for backends, as `NAME_BACKEND`.

    `NAME.tokenizer` are the files of its tokenizer, in one directory, for the app.

    Args:
        name: the target's name: an exported program, like that of `exported_program`.
        checkpoint: the files of the published folder.
        backends: names of built-in backends; a program rule with `program = ":NAME"` sets options of a backend.
        **kwargs: `vision_weights`, and those of `language_model`.
    """
    checkpoint_programs(_vision_language, _PROGRAMS, name, checkpoint, backends, kwargs)

def speech_to_text(name, checkpoint, backends = [], **kwargs):
    """Exports a model of speech recognition from its checkpoint, and lowers it for backends, as `NAME_BACKEND`.

    `NAME.tokenizer` are the files of its tokenizer, in one directory, for the app.

    Args:
        name: the target's name: an exported program, like that of `exported_program`.
        checkpoint: the files of the published folder.
        backends: names of built-in backends; a program rule with `program = ":NAME"` sets options of a backend.
        **kwargs: `weights`, `group_size`, `embedding`, `activation`, `context`, `seconds`, `samples`, `license`,
            `license_files`, `weights_alignment`, and the attributes of every rule.
    """
    checkpoint_programs(_speech_to_text, _PROGRAMS, name, checkpoint, backends, kwargs)
