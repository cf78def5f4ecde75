# SPDX-License-Identifier: Apache-2.0
"""`language_model_test`: compares the program of a language model with the model in float, token by token."""

load("//rules:providers.bzl", "DelegateProgramInfo", "LanguageModelAdapterInfo")
load(":checkpoint_test.bzl", "COMPARISON_ATTRS", "compared_model", "comparison_problems", "comparison_test")
load(":labels.bzl", "label_text")
load(":launcher.bzl", "quoted", "runfiles_path")
load(":options.bzl", "fail_with_all", "problem")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_KINDS = ["language_model", "vision_language"]
_LIMITS = ["maximum_divergence", "maximum_perplexity_ratio", "minimum_acceptance"]

# Files by which the tokenizer of a draft model is compared.
_TOKENIZERS = ["tokenizer.json", "tokenizer_config.json"]

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
    return problems + comparison_problems(ctx, _LIMITS)

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

def _adapter_problems(ctx):
    model = ctx.attr.program[DelegateProgramInfo].exported.label
    if not ctx.attr.adapter or ctx.attr.adapter[LanguageModelAdapterInfo].model == model:
        return []
    return [problem(
        "DC507",
        "adapter %s is one of another model" % label_text(ctx.attr.adapter.label),
        expected = "a `language_model_adapter` with model = \"%s\"" % label_text(model),
    )]

def _draft_problems(ctx, model):
    if not ctx.attr.draft:
        return [problem(
            "DC514",
            "minimum_acceptance has no draft",
            expected = "both, or neither",
        )] if ctx.attr.minimum_acceptance else []
    draft = ctx.attr.draft[DelegateProgramInfo].exported.language_model
    if not draft or draft.kind != "language_model":
        return [problem(
            "DC507",
            "draft %s is not lowered from a language_model" % label_text(ctx.attr.draft.label),
            expected = "a program of a `language_model`, such as \":NAME_xnnpack\"",
        )]
    if not model.draft_tokens or not ctx.attr.prompts:
        return [problem(
            "DC514",
            "draft has no effect: %s" % ("the model has no draft_tokens" if ctx.attr.prompts else "there are no prompts"),
            expected = "prompts, and a program of a `language_model` with draft_tokens, such as 4",
        )]
    return []

def _language_model_test_impl(ctx):
    model = compared_model(ctx, _KINDS)
    fail_with_all(ctx.label, _problems(ctx) + _image_problems(ctx, model.kind) + _adapter_problems(ctx) + _draft_problems(ctx, model))
    arguments = [quoted("--prompt=" + prompt) for prompt in ctx.attr.prompts]
    files = []
    for image in ctx.files.images:
        arguments.append("--image=" + runfiles_path(ctx, image))
        files.append(image)
    if ctx.file.text:
        arguments.append("--text=" + runfiles_path(ctx, ctx.file.text))
        files.append(ctx.file.text)
    if ctx.attr.draft:
        info = ctx.attr.draft[DelegateProgramInfo]
        draft = {"draft": info.host_program or info.program}
        if info.weights:
            draft["draft-ptd"] = info.weights
        arguments += ["--%s=%s" % (flag, runfiles_path(ctx, file)) for flag, file in draft.items()]
        tokenizer = [file for file in info.exported.language_model.checkpoint.to_list() if file.basename in _TOKENIZERS]
        arguments += ["--draft-checkpoint=" + runfiles_path(ctx, file) for file in tokenizer]
        files += draft.values() + tokenizer
    weights = None
    if ctx.attr.adapter:
        adapter = ctx.attr.adapter[LanguageModelAdapterInfo]
        weights = adapter.weights
        for file in adapter.checkpoint.to_list():
            arguments.append("--adapter=" + runfiles_path(ctx, file))
            files.append(file)
    return comparison_test(ctx, verb = "generate", limits = _LIMITS, arguments = arguments, files = files, weights = weights)

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
        COMPARISON_ATTRS,
        adapter = attr.label(
            doc = "A `language_model_adapter` of the program's model, which the model in float has as well. None: the model itself.",
            providers = [LanguageModelAdapterInfo],
        ),
        draft = attr.label(
            doc = "The program of a draft model, a smaller `language_model` with the same tokens: each prompt is continued again by " +
                  "speculative decoding, which must give the same tokens as without drafts.",
            providers = [DelegateProgramInfo],
        ),
        images = attr.label_list(
            allow_files = [".ppm"],
            doc = "Images for the prompts of a `vision_language` model: binary portable pixmaps of the size that it takes. In a " +
                  "prompt, the checkpoint's token for an image, such as `<image>`, stands for one: the first one for the first.",
        ),
        maximum_perplexity_ratio = attr.string(
            doc = "Largest perplexity of `text`, relative to that of the model in float, such as `1.05`. Needs `text`.",
        ),
        minimum_acceptance = attr.string(
            doc = "Least share of the tokens of `draft` that are those of the program, after each prompt, such as `0.6`.",
        ),
        prompts = attr.string_list(
            doc = "Texts to continue. One that is longer than `prefill` is passed in several calls; a text of a `vision_language` " +
                  "model may not be longer, since ExecuTorch's runner does not split it.",
        ),
        text = attr.label(
            allow_single_file = [".txt"],
            doc = "A text whose perplexity is compared: its first 512 tokens. Needs `maximum_perplexity_ratio`.",
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
