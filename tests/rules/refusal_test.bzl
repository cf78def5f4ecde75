# SPDX-License-Identifier: Apache-2.0
"""Errors at analysis time, and their messages."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "BACKENDS", "app_budget_test", "app_kernels", "delegate_program", "ethos_u_program", "exported_program", "language_model", "language_model_adapter", "language_model_test", "mlx_program", "mps_program", "portable_program", "program_accuracy_test", "program_benchmark", "program_budget_test", "program_cc_library", "program_index", "program_runtime", "program_test", "program_variant", "quantized_program", "speech_to_text", "speech_to_text_test", "tosa_program", "vgf_program", "vision_language", "vulkan_program")
load(":variants_rule.bzl", "program_variants")

def _refusal_test_impl(ctx):
    env = analysistest.begin(ctx)
    for text in ctx.attr.texts:
        asserts.expect_failure(env, text)
    return analysistest.end(env)

_refusal_test = analysistest.make(
    _refusal_test_impl,
    attrs = {"texts": attr.string_list()},
    expect_failure = True,
)

def refusal_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    program = "//tests/rules/models:mlp"
    sources = ["//tests/rules/models:mlp.py"]
    delegate_program(name = "unknown_backend", backend = "mpz", program = program, tags = ["manual"])
    delegate_program(name = "unknown_option", backend = "portable", options = {"precision": "fp16"}, program = program, tags = ["manual"])
    delegate_program(name = "misspelt_option", backend = "mps", options = {"precison": "fp16"}, program = program, tags = ["manual"])
    delegate_program(name = "list_for_a_string", backend = "mps", options = {"precision": ["fp16", "fp32"]}, program = program, tags = ["manual"])
    delegate_program(name = "line_break", backend = "a:B", options = {"flags": ["--a", "--b\nc"]}, program = program, tags = ["manual"])
    mlx_program(name = "cache_of_older_runtime", kv_cache = "runtime", program = program, runtime = "1.4.1", tags = ["manual"])
    mlx_program(name = "runtime_without_mlx", program = program, runtime = "1.3", tags = ["manual"])
    mps_program(name = "misspelt_value", int4 = "paked", program = program, tags = ["manual"])
    mps_program(name = "unknown_value", fp16_overflow = "clip", precision = "fp8", program = program, tags = ["manual"])
    vulkan_program(name = "misspelt_storage", program = program, storage = "bufer", tags = ["manual"])
    vulkan_program(name = "limits_as_storage", program = program, storage = "desktop", tags = ["manual"])
    vulkan_program(name = "unknown_limits", program = program, tags = ["manual"], textures = "2048")
    vulkan_program(name = "unknown_overflow", fp16_overflow = "clamp", precision = "fp16", program = program, tags = ["manual"])
    delegate_program(name = "unknown_device", backend = "vulkan", options = {"device": "adreno-841"}, program = program, tags = ["manual"])
    vulkan_program(name = "unknown_note", program = program, silenced_notes = ["transposed-inputs"], tags = ["manual"])
    mps_program(name = "overflow_without_fp16", fp16_overflow = "saturate", program = program, tags = ["manual"])
    delegate_program(name = "overflow_of_one_of_two", backends = ["vulkan", "xnnpack"], options = {"vulkan.fp16_overflow": "saturate", "vulkan.precision": "fp16", "xnnpack.fp16_overflow": "saturate"}, program = program, tags = ["manual"])
    delegate_program(name = "rules_for_portable", backend = "portable", block_operators = ["aten.relu"], inline_delegates = True, program = program, tags = ["manual"], deps = ["//tests/rules/models:activation"])
    delegate_program(name = "option_of_mps", backend = "vulkan", options = {"int4": "packed"}, program = program, tags = ["manual"])
    ethos_u_program(name = "system_of_another_npu", program = program, system_config = "Ethos_U85_SYS_DRAM_Mid", tags = ["manual"])
    ethos_u_program(name = "unknown_memory_mode", accelerator = "ethos-u85-256", memory_mode = "Shared_Ram", program = program, tags = ["manual"])
    ethos_u_program(name = "board_without_system", config = "//tests/rules/models:board.ini", memory_mode = "Shared", program = program, tags = ["manual"])
    delegate_program(name = "board_as_text", backend = "ethos_u", options = {"config": "board.ini"}, program = program, tags = ["manual"])
    ethos_u_program(name = "mode_without_dram", memory_mode = "Dedicated_Sram", program = program, tags = ["manual"])
    ethos_u_program(name = "misspelt_flag", extra_flags = "--optimize=Size", program = program, tags = ["manual"])
    ethos_u_program(name = "flag_without_value", extra_flags = "--optimise", program = program, tags = ["manual"])
    ethos_u_program(name = "flag_of_the_rule", extra_flags = "--config=board.ini", program = program, tags = ["manual"])
    tosa_program(name = "old_specification", program = program, specification = "TOSA-0.80.0+BI", tags = ["manual"])
    tosa_program(name = "specification_without_profile", program = program, specification = "TOSA-1.0", tags = ["manual"])
    vgf_program(name = "extension_without_profile", program = program, specification = "tosa-1.0+fp+INT16", tags = ["manual"])
    native.genrule(name = "gguf", outs = ["alone.gguf"], cmd = "touch $@", tags = ["manual"])
    language_model(name = "gguf_without_tokenizer", cache = "float_16", checkpoint = ["alone.gguf"], tags = ["manual"])
    language_model(name = "misspelt_weights", checkpoint = sources, context = 16, prefill = 17, tags = ["manual"], weights = "int_4")
    language_model(name = "rank_without_modules", adapter_rank = 8, checkpoint = sources, tags = ["manual"])
    language_model(name = "drafts_beyond_a_call", checkpoint = sources, draft_tokens = 8, experts = "matrix", prefill = 8, tags = ["manual"])
    language_model(name = "negative_rank", adapter_modules = ["q_proj"], adapter_rank = -1, checkpoint = sources, tags = ["manual"])
    language_model_adapter(name = "adapter_without_configuration", checkpoint = sources, model = ":language_model_tests_llama", tags = ["manual"])
    adapted = ":language_model_tests_adapted"
    portable_program(name = "external_weights_besides_adapters", external_weights = True, program = adapted, tags = ["manual"])
    portable_program(name = "llama_portable", program = ":language_model_tests_llama", tags = ["manual"])
    language_model_test(name = "idle_limits", maximum_divergence = "0", maximum_perplexity_ratio = "1.05", program = ":llama_portable", tags = ["manual"], tokens = 0)
    language_model_test(name = "draft_without_effect", draft = ":llama_portable", program = ":llama_portable", prompts = ["The sea"], tags = ["manual"])
    language_model_test(name = "draft_of_no_language", draft = "//tests/rules/models:mlp_mps", program = ":llama_portable", prompts = ["The sea"], tags = ["manual"])
    language_model_test(name = "acceptance_without_draft", minimum_acceptance = "0.5", program = ":llama_portable", prompts = ["The sea"], tags = ["manual"])
    language_model_test(name = "adapter_of_another_model", adapter = ":language_model_tests_pirate", program = ":llama_portable", prompts = ["The sea"], tags = ["manual"])
    vision_language(name = "misspelt_vision_weights", checkpoint = sources, context = 16, prefill = 17, tags = ["manual"], vision_weights = "int_8")
    native.genrule(name = "pixels", outs = ["pixels.ppm"], cmd = "touch $@", tags = ["manual"])
    language_model_test(name = "idle_images", images = ["pixels.ppm"], program = ":llama_portable", tags = ["manual"])
    language_model_test(name = "not_a_language_model", program = "//tests/rules/models:mlp_mps", prompts = ["The sea"], tags = ["manual"])
    speech_to_text(name = "negative_seconds", checkpoint = sources, seconds = -1, tags = ["manual"], weights = "int_4")
    native.genrule(name = "recording", outs = ["recording.wav"], cmd = "touch $@", tags = ["manual"])
    speech_to_text_test(name = "not_of_speech", audio = ["recording.wav"], program = ":llama_portable", tags = ["manual"])
    app_kernels(name = "kernel_without_overload", kernels = ["dsp::window", "dsp::window.out", "dsp.window"], module = "dsp", tags = ["manual"], deps = ["//tests/rules/models:activation"])
    metrics = ["//tests/rules/models:activation"]
    program_accuracy_test(name = "accuracy_without_limits", metric = "metrics", program = "//tests/rules/models:mlp_mps", tags = ["manual"], deps = metrics)
    program_accuracy_test(name = "accuracy_of_two_datasets", dataset = "//examples/digits:evaluation.safetensors", dataset_entry = "data:", floor = "high", maximum_loss = "-1", metric = "metrics:top1", program = "//tests/rules/models:mlp_mps", tags = ["manual"], deps = metrics)
    program_budget_test(name = "negative_budget", max_delegates = 2, max_file_kib = -7, program = "//tests/rules/models:mlp_mps", tags = ["manual"])
    program_benchmark(name = "benchmark_without_baseline", items_per_call = 0, maximum_ratio = "slow", program = "//tests/rules/models:mlp_mps", run_under_arguments = ["-cpu"], runner = "//runtime:no_runner", runs = -1)
    program_benchmark(name = "benchmark_under_nothing", program = "//tests/rules/models:mlp_mps", run_under = "//runtime:no_runner", runner = "//runtime:no_runner")
    app_budget_test(name = "no_bytes", app = "//tests/rules/models:mlp_mps.inspect", max_kib = 0, tags = ["manual"])
    program_cc_library(name = "cc_of_mps", program = "//tests/rules/models:mlp_mps", tags = ["manual"])
    delegate_program(name = "of_a_plugin", backend = "a:B", program = program, tags = ["manual"], deps = ["//tests/rules/models:activation"])
    program_cc_library(name = "cc_of_a_plugin", program = ":of_a_plugin", tags = ["manual"])
    program_budget_test(name = "no_budget", program = "//tests/rules/models:mlp_mps", tags = ["manual"])
    mps_program(name = "no_nodes", minimum_nodes = 0, program = program, tags = ["manual"])
    mps_program(name = "no_delegates", maximum_delegates = 0, minimum_nodes = -1, program = program, tags = ["manual"])
    delegate_program(name = "repeated_backend", backends = ["mps", "vulkan", "mps"], method_backends = {"forward": ["a:B", "a:B"]}, program = program, tags = ["manual"])
    delegate_program(name = "repeated_portable", backends = ["portable", "portable"], program = program, tags = ["manual"])
    mps_program(name = "unknown_method_backend", method_backends = {"forward": ["mpz"]}, program = program, tags = ["manual"])
    delegate_program(name = "unclear_option", backends = ["a:B", "mps"], options = {"precision": "fp16"}, program = program, tags = ["manual"])
    delegate_program(name = "misplaced_portable", backends = ["portable", "mps"], program = program, tags = ["manual"])
    delegate_program(name = "unknown_backends", backends = ["mpz", "vulcan", "mps"], options = {"mps.precison": "fp16", "storage": "buffer"}, program = program, tags = ["manual"])
    exported_program(name = "entry_without_function", srcs = sources, entry = "mlp", tags = ["manual"])
    exported_program(name = "entry_of_another_module", srcs = sources, entry = "foo:build", tags = ["manual"])
    mps_program(name = "memory_without_size", memories = {"dram": "32 MB", "on-chip": "1k", "sram": "512k"}, program = program, tags = ["manual"])
    mps_program(name = "alignment_of_a_segment", constant_alignment = 8, program = program, segment_alignment = 24, tags = ["manual"])
    exported_program(name = "alignment_of_weights", srcs = sources, entry = "mlp:build", tags = ["manual"], weights_alignment = 0)
    quantized_program(name = "no_samples", program = program, tags = ["manual"])
    quantized_program(name = "misspelt_activation", activation = "dynamic_int4", group_size = -1, minimum_snr_db = -1, program = program, tags = ["manual"], weight = "int2")
    quantized_program(name = "groups_with_samples", calibration = sources, group_size = 32, program = program, tags = ["manual"], weight = "float16", weight_scales = "tensor")
    quantized_program(name = "samples_at_run_time", activation = "dynamic_int8", calibration = sources, inner = "int16", observer = "minmax", program = program, quantize_io = True, ranges = "symmetric", tags = ["manual"])
    quantized_program(name = "function_without_need", srcs = sources, activation = "float", calibration_entry = "mlp:build", program = program, tags = ["manual"])
    quantized_program(name = "metric_without_loss", calibration = sources, dataset_entry = "metrics:DATA", metric = "metrics:top1", program = program, tags = ["manual"])
    quantized_program(name = "loss_without_dataset", activation = "dynamic_int8", maximum_loss = "low", metric = "metrics", program = program, tags = ["manual"])
    quantized_program(name = "lists_of_no_metric", calibration = sources, dataset_entry = "metrics:DATA", metric_over = "dataset", program = program, tags = ["manual"])
    quantized_program(name = "lists_without_loss", calibration = sources, metric_over = "dataset", program = program, tags = ["manual"])
    quantized_program(name = "deps_without_function", calibration = sources, maximum_loss = "0.1", program = program, tags = ["manual"], deps = metrics)
    quantized_program(name = "seed_without_function", calibration = sources, maximum_loss = "0.1", metric = "metrics:top1", dataset = "//examples/digits:evaluation.safetensors", program = program, seed = 1, tags = ["manual"], deps = metrics)
    program_index(name = "empty_index", programs = [program], tags = ["manual"])
    mps_test = "//tests/rules/models:mlp_mps"
    program_test(name = "atol_without_number", atol = "1e", program = mps_test, tags = ["manual"])
    program_test(name = "infinite_rtol", program = mps_test, rtol = "inf", tags = ["manual"])
    program_test(name = "tolerance_of_no_dtype", program = mps_test, tags = ["manual"], tolerances = {"flaot32": "1e-3"})
    program_test(name = "three_tolerances", program = mps_test, tags = ["manual"], tolerances = {"float32": "1e-3,1e-3,0"})
    program_test(name = "negative_tolerance", program = mps_test, tags = ["manual"], tolerances = {"int8": "-1"})
    program_test(name = "unknown_cpu", cpus = ["cortex_a76", "m4"], program = mps_test, tags = ["manual"])
    program_test(name = "negative_seeds", program = mps_test, seeds = -1, tags = ["manual"])
    exported_program(name = "negative_samples", srcs = sources, entry = "mlp:build", samples = -2, tags = ["manual"])
    program_test(name = "snr_of_floats", minimum_snr_db = -20, program = mps_test, tags = ["manual"])
    program_test(name = "several_tolerances", atol = "high", program = mps_test, rtol = "-1", seeds = -2, tags = ["manual"], tolerances = {"int8": "x"})
    program_runtime(name = "runtime_without_attribute", runtime = "executorch_runtime", tags = ["manual"], deps = ["//tests/rules/models:activation"])
    program_test(name = "inputs_without_entry", srcs = sources, program = "//tests/rules/models:mlp_mps", tags = ["manual"])
    quantized_program(name = "samples_of_another_module", srcs = sources, calibration_entry = "foo:build", program = program, tags = ["manual"])
    quantized_program(name = "sources_without_entry", srcs = sources, calibration = sources, program = program, tags = ["manual"])
    mps = ["//tests/rules/models:mlp_mps"]
    program_variants(name = "misspelt_setting", programs = mps, tags = ["manual"], variants = {"half": ["variant_strng=yes"]})
    program_variants(name = "setting_without_value", programs = mps, tags = ["manual"], variants = {"half": ["variant_bool"]})
    program_variants(name = "setting_set_twice", programs = mps, tags = ["manual"], variants = {"half": ["variant_int=1", "variant_int=2"]})
    program_variants(name = "variant_outside", programs = mps, tags = ["manual"], variants = {"../half": ["variant_int=1"]})
    portable_program(name = "mlp_portable", program = program, tags = ["manual"])
    program_variants(name = "programs_of_one_name", programs = [":mlp_portable", "//tests/rules/models:mlp_portable"], tags = ["manual"], variants = {"half": ["variant_int=1"]})
    program_variants(name = "portable_variants", programs = [":mlp_portable", "//tests/rules/models:mlp_mps"], tags = ["manual"], variants = {"half": []})
    program_variants(name = "no_variants", programs = mps, tags = ["manual"], variants = {})
    program_variant(name = "misspelt_variant", tags = ["manual"], variant = "hlaf", variants = ":portable_variants")
    program_variant(name = "one_of_several_programs", tags = ["manual"], variant = "half", variants = ":portable_variants")
    program_variant(name = "program_of_no_variant", program_name = "mlp_mpz", tags = ["manual"], variant = "half", variants = ":portable_variants")
    known = ", ".join(sorted(BACKENDS.keys() + ["portable"]))
    refusals = {
        "accuracy_of_two_datasets": ["error DC521", "dataset and dataset_entry are both set", "dataset_entry \"data:\" does not name an attribute", "floor cannot be \"high\"", "maximum_loss cannot be \"-1\"", "maximum_loss has no baseline"],
        "accuracy_without_limits": ["error DC521", "neither dataset nor dataset_entry is set", "metric \"metrics\" does not name an attribute of a module", "the test has no limits"],
        "memory_without_size": ["error DC310", "memories has \"dram\": \"32 MB\"", "memories has \"on-chip\": \"1k\"", "a name and bytes"],
        "alignment_of_a_segment": ["error DC310", "segment_alignment cannot be 24", "a power of two", "constant_alignment cannot be 8"],
        "alignment_of_weights": ["error DC310", "weights_alignment cannot be 0", "a power of two"],
        "atol_without_number": ["error DC514", "atol cannot be \"1e\"", "expected: a number of at least 0"],
        "benchmark_under_nothing": ["error DC514", "run_under //runtime:no_runner has no executable"],
        "benchmark_without_baseline": ["error DC514", "items_per_call cannot be 0", "runs cannot be -1", "maximum_ratio cannot be \"slow\"", "maximum_ratio has no baseline", "run_under_arguments has no run_under"],
        "board_as_text": ["error DC402", "option \"config\" of backend \"ethos_u\" is a file", "attribute \"config\" of ethos_u_program"],
        "board_without_system": ["error DC402", "option \"system_config\" is not set, and option \"config\" replaces its default"],
        "cache_of_older_runtime": ["error DC423", "option \"kv_cache\" of backend \"mlx\" has no effect with runtime = \"1.4.1\"", "expected: runtime = \"1.5.1\", or kv_cache = \"program\""],
        "cc_of_a_plugin": ["error DC518", "the id of a:B in the runtime is unknown", "backends = [\"...\"]"],
        "cc_of_mps": ["error DC518", "the runtime //runtime:stock has no backend MPSBackend", "//config:runtime"],
        "deps_without_function": ["error DC101", "deps is set, and nothing of the target is a function", "calibration_entry or dataset_entry, metric, or no deps"],
        "empty_index": ["error DC512", "no program among the targets of the index"],
        "entry_of_another_module": ["error DC101", "entry \"foo:build\"", "one of: mlp"],
        "entry_without_function": ["error DC101", "entry \"mlp\"", "entry = \"mlp:build\""],
        "extension_without_profile": ["error DC402", "int16 extends the profile INT, which is absent"],
        "flag_of_the_rule": ["error DC402", "--config is determined by the option config"],
        "flag_without_value": ["error DC402", "--optimise cannot be \"\"", "expected: Size or Performance"],
        "function_without_need": ["error DC136", "calibration_entry needs activation = \"int8\" or \"int16\", not \"float\"", "or no calibration_entry"],
        "groups_with_samples": ["error DC136", "group_size = 32 needs activation = \"dynamic_int8\" or \"float\", not \"int8\"", "group_size = 32 needs weight = \"int8\" or \"int4\", not \"float16\"", "group_size = 32 needs weight_scales = \"channel\", not \"tensor\"", "weight = \"float16\" needs activation = \"float\", not \"int8\"", "weight_scales = \"tensor\" needs weight = \"int8\" or \"int4\", not \"float16\""],
        "infinite_rtol": ["error DC514", "rtol cannot be \"inf\""],
        "inputs_without_entry": ["error DC101", "srcs, deps and data are for inputs_entry", "list data files of tensors in `inputs`"],
        "kernel_without_overload": ["error DC211", "\"dsp::window\" is not the name of a kernel", "\"dsp.window\" is not", "such as \"dsp::window.out\""],
        "limits_as_storage": ["error DC402", "option \"storage\" of backend \"vulkan\" cannot be \"desktop\"", "expected: texture or buffer"],
        "line_break": ["error DC402", "option \"flags\" of backend \"a:B\" has a line break: \"--b\\nc\""],
        "list_for_a_string": ["error DC402", "must be one string, not [\"fp16\", \"fp32\"]", "expected: fp32 or fp16"],
        "lists_of_no_metric": ["error DC136", "metric_over has no effect without metric", "dataset_entry has no effect without maximum_loss", "metric_over has no effect without maximum_loss"],
        "lists_without_loss": ["error DC136", "metric_over has no effect without metric", "metric_over has no effect without maximum_loss"],
        "loss_without_dataset": ["error DC521", "neither dataset nor dataset_entry is set", "metric \"metrics\" does not name an attribute of a module", "maximum_loss cannot be \"low\""],
        "metric_without_loss": ["error DC136", "dataset_entry has no effect without maximum_loss", "metric has no effect without maximum_loss"],
        "misplaced_portable": ["error DC401", "portable is listed with other backends: portable, mps"],
        "misspelt_activation": ["error DC130", "activation = \"dynamic_int4\" is not a quantization setting", "did you mean \"dynamic_int8\"?", "minimum_snr_db = -1 is not a limit", "group_size = -1 is not a group of inputs", "weight = \"int2\"", "expected: \"int8\" or \"int4\" or \"float16\""],
        "misspelt_flag": ["error DC402", "unknown flag \"--optimize\"", "did you mean \"--optimise\"?"],
        "misspelt_option": ["error DC402", "no option \"precison\"", "expected: fp16_overflow, int4, precision", "did you mean \"precision\"?"],
        "misspelt_setting": ["error DC418", "variant \"half\" sets \"variant_strng=yes\"", "or \"variant_string=VALUE\"", "did you mean \"variant_string\"?"],
        "misspelt_storage": ["error DC402", "cannot be \"bufer\"", "expected: texture or buffer", "help: did you mean \"buffer\"? texture stores"],
        "misspelt_value": ["error DC402", "cannot be \"paked\"", "expected: int8 or packed", "help: did you mean \"packed\"? int8 stores"],
        "misspelt_variant": ["error DC418", "there is no variant \"hlaf\"", "expected: \"half\"", "did you mean \"half\"?"],
        "mode_without_dram": ["error DC402", "memory mode \"Dedicated_Sram\" needs DRAM", "expected: Sram_Only or Shared_Sram"],
        "negative_budget": ["error DC509", "max_file_kib cannot be negative", "expected: 0 or more"],
        "gguf_without_tokenizer": ["error DC115", "checkpoint has no tokenizer.json: alone.gguf", "cache = \"float_16\" is not a setting of a language model", "did you mean \"float16\"?"],
        "acceptance_without_draft": ["error DC514", "minimum_acceptance has no draft"],
        "draft_of_no_language": ["error DC507", "draft //tests/rules/models:mlp_mps is not lowered from a language_model"],
        "draft_without_effect": ["error DC514", "draft has no effect: the model has no draft_tokens"],
        "drafts_beyond_a_call": ["error DC138", "draft_tokens = 8 is not between 0 and prefill = 8", "experts = \"matrix\" is not a setting of a language model"],
        "adapter_of_another_model": ["error DC507", "adapter //tests/rules:language_model_tests_pirate is one of another model", "model = \"//tests/rules:language_model_tests_llama\""],
        "adapter_without_configuration": ["error DC115", "checkpoint has no adapter_config.json: mlp.py", "error DC117", "model //tests/rules:language_model_tests_llama has no adapters"],
        "external_weights_besides_adapters": ["error DC423", "external_weights has no effect: the .ptd of a language model with adapters"],
        "idle_limits": ["error DC132", "neither prompts nor text is set", "error DC514", "maximum_perplexity_ratio has no text", "maximum_divergence has no prompts", "tokens cannot be 0", "maximum_divergence = \"0\" is not a limit"],
        "idle_images": ["error DC514", "images have no effect on a language_model", "images have no prompts"],
        "misspelt_vision_weights": ["error DC130", "vision_weights = \"int_8\" is not a setting of weights", "did you mean \"int8\"?", "prefill = 17 is not between"],
        "misspelt_weights": ["error DC130", "weights = \"int_4\" is not a setting of weights", "did you mean \"int4\"?", "prefill = 17 is not between 1 and context = 16", "checkpoint has no config.json: mlp.py"],
        "negative_rank": ["error DC130", "adapter_rank cannot be -1", "such as 16"],
        "negative_samples": ["error DC514", "samples cannot be -2", "expected: 0 or more"],
        "negative_seconds": ["error DC130", "did you mean \"int4\"?", "error DC138", "seconds = -1 is not a number of seconds of audio", "checkpoint has no config.json: mlp.py"],
        "negative_seeds": ["error DC514", "seeds cannot be -1", "expected: 0 or more"],
        "negative_tolerance": ["error DC514", "the tolerance of int8 cannot be \"-1\""],
        "no_budget": ["error DC509", "the test has no limits", "max_arena_kib or max_cycles"],
        "no_bytes": ["error DC509", "max_kib is 0"],
        "no_delegates": ["error DC412", "maximum_delegates cannot be 0", "write backends = [\"portable\"]", "minimum_nodes cannot be -1"],
        "no_nodes": ["error DC412", "minimum_nodes cannot be 0", "expected: 1 or more"],
        "not_a_language_model": ["error DC507", "program //tests/rules/models:mlp_mps is not lowered from a language_model", "help: write a program_test for other programs"],
        "not_of_speech": ["error DC507", "program //tests/rules:llama_portable is not lowered from a speech_to_text", "expected: a program of a `speech_to_text`"],
        "no_samples": ["error DC132", "neither calibration nor calibration_entry is set", "expected: calibration = [\"samples.safetensors\"]"],
        "no_variants": ["error DC418", "variants is empty", "expected: a dict of a variant's name"],
        "old_specification": ["error DC402", "version 0.80; write TOSA-1.0+INT for graphs of 1.0"],
        "one_of_several_programs": ["error DC418", "variant \"half\" has 2 programs", "program_name = \"mlp_portable\" or \"mlp_mps\""],
        "option_of_mps": ["error DC402", "backend \"vulkan\" has no option \"int4\"", "expected: device, fp16_overflow, precision, storage, textures"],
        "overflow_of_one_of_two": ["error DC423", "option \"fp16_overflow\" of backend \"xnnpack\" has no effect with precision = \"fp32\""],
        "overflow_without_fp16": ["error DC423", "option \"fp16_overflow\" of backend \"mps\" has no effect with precision = \"fp32\"", "expected: precision = \"fp16\", or fp16_overflow = \"error\"", "by a select on the flag"],
        "program_of_no_variant": ["error DC418", "variant \"half\" has no program \"mlp_mpz\"", "did you mean \"mlp_mps\"?"],
        "programs_of_one_name": ["error DC418", "two files of variant \"half\" are named \"mlp_portable.manifest.json\"", "programs with distinct names"],
        "rank_without_modules": ["error DC136", "adapter_rank = 8 with adapter_modules = []", "both, or neither"],
        "repeated_backend": ["error DC423", "backend \"mps\" is listed twice: mps, vulkan, mps", "expected: each backend once", "backend \"a:B\" is listed twice"],
        "repeated_portable": ["error DC423", "backend \"portable\" is listed twice: portable, portable"],
        "rules_for_portable": ["error DC423", "block_operators and inline_delegates have no effect without a backend that delegates", "deps have no effect: no backend is a plug-in"],
        "runtime_without_attribute": ["error DC516", "runtime \"executorch_runtime\" does not name an attribute of a module", "such as \"executorch_runtime:RUNTIME\""],
        "runtime_without_mlx": ["error DC402", "option \"runtime\" of backend \"mlx\" cannot be \"1.3\"", "expected: 1.4.1 or 1.5.1"],
        "seed_without_function": ["error DC101", "seed is set, and nothing of the target is a function", "or no seed"],
        "samples_at_run_time": ["error DC136", "calibration needs activation = \"int8\" or \"int16\", not \"dynamic_int8\"", "inner = \"int16\" needs", "observer = \"minmax\" needs", "quantize_io needs", "ranges = \"symmetric\" needs"],
        "samples_of_another_module": ["error DC101", "calibration_entry \"foo:build\"", "one of: mlp"],
        "setting_set_twice": ["error DC418", "variant \"half\" sets \"variant_int\" twice"],
        "several_tolerances": ["error DC514", "seeds cannot be -2", "atol cannot be \"high\"", "rtol cannot be \"-1\"", "the tolerance of int8 cannot be \"x\""],
        "setting_without_value": ["error DC418", "variant \"half\" sets \"variant_bool\"", "expected: \"variant_bool=VALUE\" or"],
        "snr_of_floats": ["error DC514", "minimum_snr_db cannot be -20", "minimum_snr_db has no effect: the program is not quantized"],
        "sources_without_entry": ["error DC101", "srcs, deps, data and seed are for calibration_entry", "list data files of tensors in `calibration`"],
        "specification_without_profile": ["error DC402", "it has no profile, INT or FP", "such as TOSA-1.0+INT"],
        "system_of_another_npu": ["error DC402", "\"Ethos_U85_SYS_DRAM_Mid\" for ethos-u55-128", "expected: Ethos_U55_Deep_Embedded or"],
        "three_tolerances": ["error DC514", "the tolerance of float32 cannot be \"1e-3,1e-3,0\"", "as in \"1e-3,1e-2\""],
        "tolerance_of_no_dtype": ["error DC514", "tolerances names the dtype \"flaot32\"", "help: did you mean \"float32\"?"],
        "unclear_option": ["error DC414", "option \"precision\" does not name its backend", "expected: \"a:B.precision\" or \"mps.precision\""],
        "unknown_backend": ["error DC401", "\"mpz\"", "expected: %s, or module:attribute" % known, "did you mean \"mps\"?"],
        "unknown_backends": ["error DC401", "\"mpz\"", "\"vulcan\"", "did you mean \"vulkan\"?", "no option \"precison\"", "option \"storage\" does not name its backend"],
        "unknown_cpu": ["error DC516", "no CPU \"cortex_a76\" is known", "expected: a64fx, cortex-a53", "did you mean \"cortex-a76\"?", "no CPU \"m4\" is known"],
        "unknown_device": ["error DC402", "option \"device\" of backend \"vulkan\" is a file", "expected: adreno-840 or powervr-dxt-48-1536 or attribute \"device\" of vulkan_program", "did you mean \"adreno-840\"?"],
        "unknown_limits": ["error DC402", "cannot be \"2048\"", "expected: mobile or desktop", "help: mobile limits textures to 16384"],
        "unknown_memory_mode": ["error DC402", "\"Shared_Ram\" for ethos-u85-256", "help: did you mean \"Shared_Sram\"?"],
        "unknown_method_backend": ["error DC401", "\"mpz\"", "expected: %s, or module:attribute" % known],
        "unknown_note": ["error DC425", "no note is named \"transposed-inputs\"", "expected: avoided-fault, duplicated-weights", "did you mean \"transposed-input\"?"],
        "unknown_option": ["error DC402", "no option \"precision\"", "expected: no options"],
        "unknown_overflow": ["error DC402", "cannot be \"clamp\"", "expected: error or saturate", "help: with fp16, error rejects"],
        "unknown_value": ["error DC402", "cannot be \"fp8\"", "expected: fp32 or fp16", "help: fp16 stores", "option \"fp16_overflow\" of backend \"mps\" cannot be \"clip\""],
        "variant_outside": ["error DC418", "a variant is named \"../half\"", "expected: a letter or digit"],
    }
    for target, texts in refusals.items():
        _refusal_test(
            name = "%s_%s" % (name, target),
            size = "small",
            # Each message starts with the label of the invalid target.
            texts = ["//tests/rules:%s: error" % target] + texts,
            # In a program_cc_library, the rule of its header.
            target_under_test = ":" + target + (".header" if target.startswith("cc_") else ""),
        )
    native.test_suite(
        name = name,
        tests = ["%s_%s" % (name, target) for target in refusals],
    )
