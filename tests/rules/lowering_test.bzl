# SPDX-License-Identifier: Apache-2.0
"""The outputs and actions of the rules that lower."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "BACKENDS", "DelegateProgramInfo", "delegate_program", "ethos_u_program", "mps_program", "vulkan_program")
load(":actions.bzl", "action_of", "flags_of", "names_of")

_DELEGATION_FLAGS = [
    "all-or-nothing",
    "allow-module",
    "allow-operator",
    "block-module",
    "block-operator",
    "maximum-delegates",
    "method-backend",
    "minimum-nodes",
    "silence-note",
]

def _lowering_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    name = target.label.name
    info = target[DelegateProgramInfo]
    action = action_of(env, "DelegateLower")

    # The program by default, its descriptions in output groups.
    groups = {
        "debug": ".debug.json",
        "ir": ".ir.txt",
        "manifest": ".manifest.json",
        "reasons": ".reasons.txt",
    }
    without_lines = [".debug.json", ".ir.txt", ".manifest.json"]
    written = [name + ".DelegateLower"] + [name + suffix for suffix in without_lines + [".pte", ".selected_operators.yaml"]]
    asserts.equals(env, sorted(written), names_of(action.outputs))

    # A separate action adds the model's lines to the descriptions, so that an edit of lines does not lower again.
    located = action_of(env, "DelegateLocate")
    asserts.equals(env, sorted([name + suffix for suffix in groups.values()]), names_of(located.outputs))
    weights = [info.weights] if ctx.attr.external_weights else []
    asserts.equals(env, [info.program] + weights, target[DefaultInfo].files.to_list())
    asserts.equals(env, ["mlp.ptd"] if ctx.attr.external_weights else [], [file.basename for file in weights])

    # What an app links has no lines.
    asserts.equals(env, [name + ".selected_operators.yaml"], names_of(target[OutputGroupInfo].selected_operators))
    asserts.equals(env, [info.selected_operators], target[OutputGroupInfo].selected_operators.to_list())

    # An ETRecord contains the weights: a separate action writes it.
    asserts.equals(env, [name + ".etrecord"], names_of(action_of(env, "DelegateRecord").outputs))

    # These read the blobs of the program: separate actions write them.
    asserts.equals(env, [name + ".report.html"], names_of(action_of(env, "DelegateReport").outputs))
    asserts.equals(env, [name + ".blobs.zip"], names_of(action_of(env, "DelegateExtract").outputs))
    on_demand = dict(blobs = ".blobs.zip", etrecord = ".etrecord", report = ".report.html")
    for group, suffix in dict(groups, **on_demand).items():
        asserts.equals(env, [name + suffix], names_of(getattr(target[OutputGroupInfo], group)))
        asserts.equals(env, name + suffix, getattr(info, group).basename)

    backends = ctx.attr.backends or [ctx.attr.backend]
    asserts.equals(env, ctx.attr.backend, info.backend)
    asserts.equals(env, [each for each in ctx.attr.backend.split(", ") if each != "portable"], info.backends)
    asserts.equals(env, dict(ctx.attr.options, **ctx.attr.list_options), info.options)
    asserts.equals(env, "mlp.pt2", info.exported.program.basename)

    flags = flags_of(action)
    asserts.equals(env, backends, flags["backend"])
    lists = [(option, value) for option, values in ctx.attr.list_options.items() for value in values or [""]]
    asserts.equals(
        env,
        sorted(["%s=%s" % pair for pair in ctx.attr.options.items() + lists]),
        flags.get("option", []),
    )
    asserts.equals(env, ctx.attr.require_full_delegation, "require-full-delegation" in flags)

    # Delegation: only the flags of attributes that are set.
    delegation = {
        flag: flags[flag]
        for flag in _DELEGATION_FLAGS
        if flag in flags
    }
    asserts.equals(env, ctx.attr.delegation, delegation)
    asserts.equals(env, ctx.attr.external_weights, "external-weights" in flags)
    for flag, value in dict({"constant-alignment": "16", "segment-alignment": "128"}, **ctx.attr.layout).items():
        asserts.equals(env, [value], flags[flag])

    # The model's sources are not inputs: an edit that does not change the .pt2 does not lower again.
    inputs = [file.short_path for file in action.inputs.to_list()]
    asserts.true(env, "tests/rules/models/mlp.pt2" in inputs)
    for path in ["mlp.py", "mlp.samples.safetensors"]:
        asserts.false(env, "tests/rules/models/" + path in inputs)
    for path in ctx.attr.expected_inputs:
        asserts.true(env, path in inputs, "%s is not an input" % path)
    return analysistest.end(env)

_lowering_test = analysistest.make(
    _lowering_test_impl,
    attrs = {
        "backend": attr.string(),
        "backends": attr.string_list(),
        "delegation": attr.string_list_dict(),
        "expected_inputs": attr.string_list(),
        "external_weights": attr.bool(),
        "layout": attr.string_dict(),
        "list_options": attr.string_list_dict(),
        "options": attr.string_dict(),
        "require_full_delegation": attr.bool(),
    },
)

def lowering_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    mps_program(
        name = "mlp_fp16",
        fp16_overflow = "saturate",
        int4 = "packed",
        precision = "fp16",
        program = "//tests/rules/models:mlp",
        require_full_delegation = True,
        tags = ["manual"],
    )
    vulkan_program(
        name = "mlp_buffers",
        fp16_overflow = "saturate",
        precision = "fp16",
        program = "//tests/rules/models:mlp",
        require_full_delegation = True,
        storage = "buffer",
        tags = ["manual"],
        textures = "desktop",
    )

    vulkan_program(
        name = "mlp_device",
        device = "adreno-840",
        program = "//tests/rules/models:mlp",
        tags = ["manual"],
    )

    # Only analyzed: an NPU computes in integers, and takes nothing of a model in float.
    ethos_u_program(
        name = "mlp_ethos_u",
        program = "//tests/rules/models:mlp",
        tags = ["manual"],
    )
    delegate_program(
        name = "mlp_plugin",
        backend = "tests.rules.models.activation:backend",
        options = {
            "flags": ["--a=1,2", "--b"],
            "level": "2",
            "nothing": [],
        },
        program = "//tests/rules/models:mlp",
        tags = ["manual"],
        deps = ["//tests/rules/models:activation"],
    )
    delegate_program(
        name = "mlp_several",
        backends = ["tests.rules.models.activation:backend", "mps"],
        options = {
            "mps.precision": "fp16",
            "tests.rules.models.activation:backend.level": "2",
        },
        program = "//tests/rules/models:mlp",
        tags = ["manual"],
        deps = ["//tests/rules/models:activation"],
    )
    mps_program(
        name = "mlp_ruled",
        all_or_nothing = True,
        allow_modules = ["layers.*"],
        allow_operators = ["aten.*"],
        block_modules = ["layers.1", "layers.2"],
        block_operators = ["aten.relu"],
        maximum_delegates = 2,
        method_backends = {"forward": ["mps"]},
        minimum_nodes = 3,
        program = "//tests/rules/models:mlp",
        silenced_notes = ["duplicated-weights"],
        tags = ["manual"],
    )
    mps_program(
        name = "mlp_by_method",
        method_backends = {"forward": ["vulkan"]},
        precision = "fp16",
        program = "//tests/rules/models:mlp",
        tags = ["manual"],
    )
    _lowering_test(
        name = name + "_by_method",
        size = "small",
        backend = "mps, vulkan",
        backends = ["mps"],
        delegation = {"method-backend": ["forward=vulkan"]},
        options = {
            "mps.fp16_overflow": "error",
            "mps.int4": "int8",
            "mps.precision": "fp16",
        },
        target_under_test = ":mlp_by_method",
    )
    _lowering_test(
        name = name + "_several",
        size = "small",
        backend = "tests.rules.models.activation:backend, mps",
        backends = ["tests.rules.models.activation:backend", "mps"],
        options = {
            "mps.precision": "fp16",
            "tests.rules.models.activation:backend.level": "2",
        },
        target_under_test = ":mlp_several",
    )
    _lowering_test(
        name = name + "_ruled",
        size = "small",
        backend = "mps",
        delegation = {
            "all-or-nothing": [""],
            "allow-module": ["layers.*"],
            "allow-operator": ["aten.*"],
            "block-module": ["layers.1", "layers.2"],
            "block-operator": ["aten.relu"],
            "maximum-delegates": ["2"],
            "method-backend": ["forward=mps"],
            "minimum-nodes": ["3"],
            "silence-note": ["duplicated-weights"],
        },
        options = {
            "fp16_overflow": "error",
            "int4": "int8",
            "precision": "fp32",
        },
        target_under_test = ":mlp_ruled",
    )
    for backend in BACKENDS:
        defaults = {option: spec.default for option, spec in BACKENDS[backend].options.items() if not spec.file}
        _lowering_test(
            name = name + "_" + backend,
            size = "small",
            backend = backend,
            list_options = {option: value for option, value in defaults.items() if type(value) == "list"},
            options = {option: value for option, value in defaults.items() if type(value) == "string"},
            target_under_test = ":mlp_ethos_u" if backend == "ethos_u" else "//tests/rules/models:mlp_" + backend,
        )
    _lowering_test(
        name = name + "_mps_fp16",
        size = "small",
        backend = "mps",
        options = {
            "fp16_overflow": "saturate",
            "int4": "packed",
            "precision": "fp16",
        },
        require_full_delegation = True,
        target_under_test = ":mlp_fp16",
    )
    _lowering_test(
        name = name + "_vulkan_buffers",
        size = "small",
        backend = "vulkan",
        options = {
            "fp16_overflow": "saturate",
            "precision": "fp16",
            "storage": "buffer",
            "textures": "desktop",
        },
        require_full_delegation = True,
        target_under_test = ":mlp_buffers",
    )
    device = "python/delegatec/backends/vulkan/devices/builtin/adreno_840.json"
    _lowering_test(
        name = name + "_vulkan_device",
        size = "small",
        backend = "vulkan",
        expected_inputs = [device],
        options = {
            "device": device,
            "fp16_overflow": "error",
            "precision": "fp32",
            "storage": "texture",
            "textures": "mobile",
        },
        target_under_test = ":mlp_device",
    )
    _lowering_test(
        name = name + "_portable",
        size = "small",
        backend = "portable",
        target_under_test = "//tests/rules/models:mlp_portable",
    )
    _lowering_test(
        name = name + "_portable_external",
        size = "small",
        backend = "portable",
        external_weights = True,
        layout = {"constant-alignment": "64", "segment-alignment": "4096"},
        target_under_test = "//tests/rules/models:mlp_portable_external",
    )
    _lowering_test(
        name = name + "_plugin",
        size = "small",
        backend = "tests.rules.models.activation:backend",
        expected_inputs = ["tests/rules/models/activation.py"],
        list_options = {
            "flags": ["--a=1,2", "--b"],
            "nothing": [],
        },
        options = {"level": "2"},
        target_under_test = ":mlp_plugin",
    )
    native.test_suite(
        name = name,
        tests = [
            name + suffix
            for suffix in [
                "_by_method",
                "_mps_fp16",
                "_plugin",
                "_portable",
                "_portable_external",
                "_ruled",
                "_several",
                "_vulkan_buffers",
                "_vulkan_device",
            ] + ["_" + backend for backend in BACKENDS]
        ],
    )
