# SPDX-License-Identifier: Apache-2.0
"""The actions of `language_model`: weights are stored apart from the export, and the context does not matter to them."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "DelegateProgramInfo", "ExportedProgramInfo", "LanguageModelAdapterInfo", "LanguageModelInfo", "language_model", "language_model_adapter", "portable_program", "speech_to_text", "vision_language")
load(":actions.bzl", "action_of", "external_path", "flags_of")

def _language_model_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    info = target[LanguageModelInfo]
    asserts.equals(env, info, target[ExportedProgramInfo].language_model)
    asserts.equals(env, ["tokenizer.json"], [file.basename for file in info.tokenizer.to_list()])

    storing = action_of(env, "DelegateCheckpoint")
    flags = flags_of(storing)
    asserts.equals(env, ["language_model"], flags["kind"])
    asserts.equals(env, ["int4"], flags["weights"])
    asserts.equals(env, ["32"], flags["group-size"])
    asserts.equals(env, [""], flags["embedding"])
    asserts.false(env, "context" in flags)
    inputs = [file.short_path for file in storing.inputs.to_list()]
    asserts.equals(
        env,
        ["config.json", "model.safetensors"],
        sorted([path.split("/")[-1] for path in inputs if "/llama/" in path]),
    )
    asserts.true(env, external_path(Label("@delegatec_pip_models//:site-packages")) in inputs, "transformers is not an input")

    exporting = action_of(env, "TorchExport")
    flags = flags_of(exporting)
    asserts.false(env, info.has_adapters)
    asserts.equals(env, ["language_model_entry:build"], flags["entry"])
    asserts.equals(env, [info.weights.path], flags["data"])
    inputs = [file.short_path for file in exporting.inputs.to_list()]
    asserts.false(env, [path for path in inputs if "/llama/" in path], "the export reads the checkpoint")
    return analysistest.end(env)

_language_model_test = analysistest.make(_language_model_test_impl)

def _assert_checkpoint(env, kind, folder):
    """Asserts which files the action of a checkpoint reads, and which the export.

    Args:
        env: of the test.
        kind: name of the rule.
        folder: that of the checkpoint.

    Returns:
        The flags of the checkpoint's action.
    """
    info = analysistest.target_under_test(env)[LanguageModelInfo]
    asserts.equals(env, kind, info.kind)
    storing = action_of(env, "DelegateCheckpoint")
    flags = flags_of(storing)
    asserts.equals(env, [kind], flags["kind"])
    inputs = [file.short_path for file in storing.inputs.to_list()]
    asserts.equals(
        env,
        ["config.json", "model.safetensors", "preprocessor_config.json"],
        sorted([path.split("/")[-1] for path in inputs if "/%s/" % folder in path]),
    )
    exporting = flags_of(action_of(env, "TorchExport"))
    asserts.equals(env, [kind + "_entry:build"], exporting["entry"])
    asserts.equals(env, [info.weights.path], exporting["data"])
    return flags

def _adapter_test_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[LanguageModelAdapterInfo]
    action = action_of(env, "DelegateAdapter")
    flags = flags_of(action)
    asserts.equals(env, [info.weights.path], flags["ptd"])
    asserts.equals(env, [info.model.name + ".ptd"], [path.split("/")[-1] for path in flags["base"]])
    inputs = [file.short_path for file in action.inputs.to_list()]
    asserts.equals(
        env,
        ["adapter_config.json", "adapter_model.safetensors"],
        sorted([path.split("/")[-1] for path in inputs if "/pirate/" in path]),
    )
    asserts.equals(
        env,
        ["README.md", "adapter_config.json", "adapter_model.safetensors"],
        sorted([file.basename for file in info.checkpoint.to_list()]),
    )
    return analysistest.end(env)

_adapter_test = analysistest.make(_adapter_test_impl)

def _adapted_program_test_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[DelegateProgramInfo]
    asserts.true(env, info.exported.language_model.has_adapters)
    asserts.equals(env, info.exported.weights, info.weights)
    flags = flags_of(action_of(env, "DelegateLower"))
    asserts.equals(env, [""], flags["external-weights"])
    return analysistest.end(env)

_adapted_program_test = analysistest.make(_adapted_program_test_impl)

def _vision_language_test_impl(ctx):
    env = analysistest.begin(ctx)
    flags = _assert_checkpoint(env, "vision_language", "llava")
    asserts.equals(env, ["float16"], flags["vision-weights"])
    return analysistest.end(env)

_vision_language_test = analysistest.make(_vision_language_test_impl)

def _speech_to_text_test_impl(ctx):
    env = analysistest.begin(ctx)
    flags = _assert_checkpoint(env, "speech_to_text", "whisper")
    asserts.false(env, "seconds" in flags)
    return analysistest.end(env)

_speech_to_text_test = analysistest.make(_speech_to_text_test_impl)

def language_model_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    files = ["llama/" + file for file in ["config.json", "model.safetensors", "tokenizer.json"]]
    native.genrule(
        name = name + "_checkpoint",
        outs = files,
        cmd = "touch $(OUTS)",
        tags = ["manual"],
    )
    language_model(
        name = name + "_llama",
        checkpoint = files,
        context = 64,
        group_size = 32,
        prefill = 16,
        tags = ["manual"],
        weights = "int4",
    )
    _language_model_test(
        name = name + "_actions",
        size = "small",
        target_under_test = ":" + name + "_llama",
    )
    adapter = ["pirate/" + file for file in ["README.md", "adapter_config.json", "adapter_model.safetensors"]]
    native.genrule(
        name = name + "_adapter_folder",
        outs = adapter,
        cmd = "touch $(OUTS)",
        tags = ["manual"],
    )
    language_model(
        name = name + "_adapted",
        adapter_modules = ["q_proj"],
        adapter_rank = 8,
        checkpoint = files,
        tags = ["manual"],
    )
    language_model_adapter(
        name = name + "_pirate",
        checkpoint = adapter,
        model = ":" + name + "_adapted",
        tags = ["manual"],
    )
    portable_program(
        name = name + "_adapted_portable",
        program = ":" + name + "_adapted",
        tags = ["manual"],
    )
    _adapter_test(
        name = name + "_adapter_actions",
        size = "small",
        target_under_test = ":" + name + "_pirate",
    )
    _adapted_program_test(
        name = name + "_adapted_program",
        size = "small",
        target_under_test = ":" + name + "_adapted_portable",
    )
    images = ["llava/" + file for file in ["config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json"]]
    native.genrule(
        name = name + "_images_checkpoint",
        outs = images,
        cmd = "touch $(OUTS)",
        tags = ["manual"],
    )
    vision_language(
        name = name + "_llava",
        checkpoint = images,
        tags = ["manual"],
        vision_weights = "float16",
        weights = "int8",
    )
    _vision_language_test(
        name = name + "_images_actions",
        size = "small",
        target_under_test = ":" + name + "_llava",
    )
    speech = ["whisper/" + file for file in ["config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json"]]
    native.genrule(
        name = name + "_speech_checkpoint",
        outs = speech,
        cmd = "touch $(OUTS)",
        tags = ["manual"],
    )
    speech_to_text(
        name = name + "_whisper",
        checkpoint = speech,
        seconds = 30,
        tags = ["manual"],
        weights = "int8",
    )
    _speech_to_text_test(
        name = name + "_speech_actions",
        size = "small",
        target_under_test = ":" + name + "_whisper",
    )
    native.test_suite(
        name = name,
        tests = [
            ":" + name + suffix
            for suffix in ["_actions", "_adapted_program", "_adapter_actions", "_images_actions", "_speech_actions"]
        ],
    )
