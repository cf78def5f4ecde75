# SPDX-License-Identifier: Apache-2.0
"""`language_model_test`: compares the program of a language model with the model in float, token by token."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":labels.bzl", "label_text")
load(":launched_test.bzl", "launched_test")
load(":launcher.bzl", "quoted", "runfiles_path")
load(":options.bzl", "fail_with", "fail_with_all", "problem")
load(":program_runtime.bzl", "ProgramRuntimeInfo")
load(":python_paths.bzl", "merged_python")
load(":tolerances.bzl", "is_number")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_KINDS = ["language_model", "vision_language"]
_LIMITS = ["maximum_divergence", "maximum_perplexity_ratio"]

def _is_positive(text):
    return is_number(text) and bool(text.lower().partition("e")[0].replace(".", "").strip(" 0"))

def _problems(ctx):
    problems = []
    if not ctx.attr.prompts and not ctx.file.text:
        problems.append(problem(
            "DC132",
            "neither prompts nor text is set",
            expected = "prompts = [\"The sea\"], or a file of text",
        ))
    if bool(ctx.file.text) != bool(ctx.attr.maximum_perplexity_ratio):
        problems.append(problem(
            "DC514",
            "text without maximum_perplexity_ratio has no limit" if ctx.file.text else "maximum_perplexity_ratio has no text",
            expected = "both, or neither",
        ))
    if ctx.attr.maximum_divergence and not ctx.attr.prompts:
        problems.append(problem(
            "DC514",
            "maximum_divergence has no prompts",
            expected = "prompts, after which predictions are compared",
        ))
    if ctx.attr.tokens < 1:
        problems.append(problem(
            "DC514",
            "tokens cannot be %d" % ctx.attr.tokens,
            expected = "1 or more",
        ))
    for name in _LIMITS:
        value = getattr(ctx.attr, name)
        if value and not _is_positive(value):
            problems.append(problem(
                "DC514",
                "%s = \"%s\" is not a limit" % (name, value),
                expected = "a positive number, such as \"0.05\"",
            ))
    return problems

def _image_problems(ctx, kind):
    problems = []
    if ctx.files.images and kind != "vision_language":
        problems.append(problem(
            "DC514",
            "images have no effect on a %s" % kind,
            expected = "a program of a `vision_language`, or no images",
        ))
    if ctx.files.images and not ctx.attr.prompts:
        problems.append(problem(
            "DC514",
            "images have no prompts",
            expected = "prompts with the checkpoint's token for an image, such as \"<image>What is this?\"",
        ))
    return problems

def _language_model_test_impl(ctx):
    info = ctx.attr.program[DelegateProgramInfo]
    model = info.exported.language_model
    if not model or model.kind not in _KINDS:
        fail_with(
            ctx.label,
            "DC507",
            "program %s is not lowered from a language_model" % label_text(ctx.attr.program.label),
            expected = "a program of a `language_model` or a `vision_language`, such as \":smollm_xnnpack\"",
            help = "write a program_test for other programs",
        )
    fail_with_all(ctx.label, _problems(ctx) + _image_problems(ctx, model.kind))
    checkpoint = model.checkpoint.to_list()
    program = info.host_program or info.program
    files = [program] + checkpoint
    arguments = [
        quoted("--label=" + label_text(ctx.label)),
        "--pte=" + runfiles_path(ctx, program),
        "--tokens=%d" % ctx.attr.tokens,
    ]
    arguments += ["--checkpoint=" + runfiles_path(ctx, file) for file in checkpoint]
    arguments += [quoted("--prompt=" + prompt) for prompt in ctx.attr.prompts]
    arguments += [
        quoted("--%s=%s" % (name.replace("_", "-"), getattr(ctx.attr, name)))
        for name in _LIMITS
        if getattr(ctx.attr, name)
    ]
    for image in ctx.files.images:
        arguments.append(quoted("--image=" + runfiles_path(ctx, image)))
        files.append(image)
    if ctx.file.text:
        arguments.append("--text=" + runfiles_path(ctx, ctx.file.text))
        files.append(ctx.file.text)
    return launched_test(
        ctx,
        info,
        arguments = arguments,
        files = files,
        python = merged_python(ctx, [ctx.attr._transformers]),
        verb = "generate",
    )

language_model_test = rule(
    implementation = _language_model_test_impl,
    doc = """\
Continues prompts with the program of a `language_model` or a `vision_language`, on this host, and compares it with the model
in float, as `transformers` runs it from the same checkpoint.

Without `maximum_divergence`, the greedy tokens must be the same. With a `runtime`, the program runs there, and not in the
compiler's interpreter; the runtime's own runner of language models must answer as the program does, in two turns; and the
context is filled to its last token, beyond which a token is an error.
""",
    attrs = dict(
        images = attr.label_list(
            allow_files = [".ppm"],
            doc = "Images for the prompts of a `vision_language` model: binary portable pixmaps of the size that it takes. In a " +
                  "prompt, the checkpoint's token for an image, such as `<image>`, stands for one: the first one for the first.",
        ),
        maximum_divergence = attr.string(
            doc = "Largest mean Kullback-Leibler divergence of the predictions from those of the model in float, in nats, for " +
                  "programs with quantized or float16 weights, such as `0.05`.",
        ),
        maximum_perplexity_ratio = attr.string(
            doc = "Largest perplexity of `text`, relative to that of the model in float, such as `1.05`. Needs `text`.",
        ),
        program = attr.label(
            mandatory = True,
            doc = "The lowered program.",
            providers = [DelegateProgramInfo],
        ),
        prompts = attr.string_list(
            doc = "Texts to continue. One that is longer than `prefill` is passed in several calls.",
        ),
        runtime = attr.label(
            doc = "A `program_runtime`, such as ExecuTorch's own runtime.",
            providers = [ProgramRuntimeInfo],
        ),
        text = attr.label(
            allow_single_file = [".txt"],
            doc = "A text whose perplexity is compared: its first 512 tokens. Needs `maximum_perplexity_ratio`.",
        ),
        tokens = attr.int(
            default = 16,
            doc = "Number of tokens to generate for each prompt.",
        ),
        _transformers = attr.label(
            default = Label("@delegatec_pip_models//:lib"),
            providers = [PyInfo],
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
