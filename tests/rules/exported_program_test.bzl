# SPDX-License-Identifier: Apache-2.0
"""The outputs and actions of `exported_program`."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "ExportedProgramInfo", "exported_program")
load(":actions.bzl", "action_of", "external_path", "flags_of", "names_of")

def _export_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    action = action_of(env, "TorchExport")
    asserts.equals(env, ["mlp.pt2", "mlp.samples.safetensors", "mlp.signature.json", "mlp.sources.json"], names_of(action.outputs))

    info = target[ExportedProgramInfo]
    asserts.equals(env, "mlp.pt2", info.program.basename)
    asserts.equals(env, target.label, info.label)
    asserts.equals(env, [info.program], target[DefaultInfo].files.to_list())
    asserts.equals(env, ["mlp.signature.json"], names_of(target[OutputGroupInfo].signature))
    asserts.equals(env, ["mlp.sources.json"], names_of(target[OutputGroupInfo].sources))
    asserts.equals(env, [info.samples], target[OutputGroupInfo].samples.to_list())
    asserts.equals(env, ["mlp.samples.safetensors"], names_of(target[OutputGroupInfo].samples))
    asserts.false(env, info.quantized)

    # The weights are written from the archive, on demand only.
    weights = action_of(env, "DelegateWeights")
    asserts.equals(env, ["mlp.ptd"], names_of(weights.outputs))
    asserts.equals(env, weights.outputs.to_list(), target[OutputGroupInfo].weights.to_list())
    asserts.equals(env, weights.outputs.to_list(), [info.weights])
    asserts.equals(env, ["128"], flags_of(weights)["segment-alignment"])
    asserts.false(env, "tests/rules/models/mlp.py" in [file.short_path for file in weights.inputs.to_list()])

    flags = flags_of(action)
    asserts.equals(env, ["mlp:build"], flags["entry"])
    asserts.equals(env, ["tests/rules/models/mlp.py"], flags["source"])
    asserts.equals(env, ["0"], flags["seed"])
    asserts.equals(env, ["tests/rules/models", "."], flags["import-path"][:2])

    # Sources, their library, and the wheels as one directory.
    inputs = [file.short_path for file in action.inputs.to_list()]
    for path in ["tests/rules/models/mlp.py", "tests/rules/models/activation.py"]:
        asserts.true(env, path in inputs, "%s is not an input" % path)
    asserts.true(env, external_path(Label("@delegatec_pip_compiler//:site-packages")) in inputs, "the wheels are not an input")
    return analysistest.end(env)

_export_test = analysistest.make(_export_test_impl)

def _quantize_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    action = action_of(env, "DelegateQuantize")
    asserts.equals(env, ["mlp_int8.DelegateQuantize", "mlp_int8.pt2", "mlp_int8.signature.json"], names_of(action.outputs))

    # The same provider as of an exported_program.
    info = target[ExportedProgramInfo]
    asserts.equals(env, "mlp_int8.pt2", info.program.basename)
    asserts.equals(env, target.label, info.label)
    asserts.equals(env, ["mlp_int8.ptd"], names_of(action_of(env, "DelegateWeights").outputs))
    asserts.equals(env, "mlp_int8.ptd", info.weights.basename)

    # Its tests compare with the model in float, unless the inputs are quantized.
    asserts.true(env, info.quantized)
    asserts.equals(env, None, info.samples)

    flags = flags_of(action)
    asserts.true(env, flags["program"][0].endswith("tests/rules/models/mlp.pt2"))
    asserts.equals(env, ["mlp_samples:build"], flags["entry"])
    asserts.equals(env, ["int8"], flags["activation"])
    asserts.equals(env, ["tensor"], flags["weight-scales"])
    asserts.equals(env, ["aten.relu"], flags["float-operator"])
    asserts.equals(env, [""], flags["quantize-io"])
    asserts.equals(env, ["1"], flags["minimum-snr-db"])

    # Sources that the build generates are in another directory than the first one.
    generated = target[DefaultInfo].files.to_list()[0].root.path
    asserts.equals(
        env,
        ["tests/rules/models", generated + "/tests/rules/models", ".", generated],
        flags["import-path"][:4],
    )

    # The model and the samples, not the model's sources; and torchao.
    inputs = [file.short_path for file in action.inputs.to_list()]
    for path in ["tests/rules/models/mlp.pt2", "tests/rules/models/mlp_samples.py"]:
        asserts.true(env, path in inputs, "%s is not an input" % path)
    asserts.false(env, "tests/rules/models/mlp.py" in inputs)
    asserts.true(env, external_path(Label("@delegatec_pip_quantization//:site-packages")) in inputs, "torchao is not an input")
    return analysistest.end(env)

_quantize_test = analysistest.make(_quantize_test_impl)

_SAMPLES = [-1, 0, 5]

def _samples_test_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[ExportedProgramInfo]
    action = action_of(env, "TorchExport")
    asserts.equals(env, [ctx.attr.samples], flags_of(action).get("samples", [""]))
    asserts.equals(env, ctx.attr.samples != "0", "samples-file" in flags_of(action))
    asserts.equals(env, ctx.attr.samples == "0", info.samples == None)
    return analysistest.end(env)

_samples_test = analysistest.make(
    _samples_test_impl,
    attrs = {"samples": attr.string()},
)

def _hermetic_test_impl(ctx):
    env = analysistest.begin(ctx)
    variables = action_of(env, ctx.attr.mnemonic).env
    asserts.equals(
        env,
        ["HF_HUB_OFFLINE", "HOME", "LC_ALL", "LOGNAME", "OMP_NUM_THREADS", "PYTHONHASHSEED", "PYTHONPATH", "TQDM_DISABLE"],
        sorted(variables.keys()),
    )
    asserts.equals(env, "/dev/null", variables["HOME"])
    asserts.equals(env, "0", variables["PYTHONHASHSEED"])
    for path in variables["PYTHONPATH"].split(":"):
        asserts.false(env, path.startswith("/"), "%s is a path of this machine" % path)
    return analysistest.end(env)

_hermetic_test = analysistest.make(
    _hermetic_test_impl,
    attrs = {"mnemonic": attr.string()},
)

def exported_program_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    _export_test(
        name = name + "_export",
        size = "small",
        target_under_test = "//tests/rules/models:mlp",
    )
    for samples in _SAMPLES:
        sampled = "%s_samples_%d" % (name, samples)
        exported_program(
            name = sampled + "_program",
            srcs = ["//tests/rules/models:mlp.py"],
            entry = "mlp:build",
            samples = samples,
            tags = ["manual"],
        )
        _samples_test(
            name = sampled,
            size = "small",
            samples = str(samples) if samples >= 0 else "",
            target_under_test = ":%s_program" % sampled,
        )
    _hermetic_test(
        name = name + "_hermetic_export",
        size = "small",
        mnemonic = "TorchExport",
        target_under_test = "//tests/rules/models:mlp",
    )
    _hermetic_test(
        name = name + "_hermetic_lowering",
        size = "small",
        mnemonic = "DelegateLower",
        target_under_test = "//tests/rules/models:mlp_mps",
    )
    _quantize_test(
        name = name + "_quantization",
        size = "small",
        target_under_test = "//tests/rules/models:mlp_int8",
    )
    _hermetic_test(
        name = name + "_hermetic_quantization",
        size = "small",
        mnemonic = "DelegateQuantize",
        target_under_test = "//tests/rules/models:mlp_int8",
    )
    native.test_suite(
        name = name,
        tests = [
            name + "_export",
            name + "_hermetic_quantization",
            name + "_quantization",
            name + "_hermetic_export",
            name + "_hermetic_lowering",
        ] + ["%s_samples_%d" % (name, samples) for samples in _SAMPLES],
    )
