# SPDX-License-Identifier: Apache-2.0
"""`language_model`: a checkpoint's folder to an exported program, which ExecuTorch's stock runner calls."""

load("//rules:providers.bzl", "ExportedProgramInfo", "LanguageModelInfo")
load(":checkpoint.bzl", "CHECKPOINT_ATTRS", "checkpoint_problems", "choice_problems", "export_checkpoint", "size_problems")
load(":compiler_tables.bzl", "LANGUAGE_MODEL_CACHES")
load(":options.bzl", "fail_with_all")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _language_model_impl(ctx):
    cache = choice_problems("cache", ctx.attr.cache, LANGUAGE_MODEL_CACHES, "a language model")
    fail_with_all(ctx.label, checkpoint_problems(ctx) + cache + size_problems(ctx))
    return export_checkpoint(
        ctx,
        kind = "language_model",
        arguments = {"cache": ctx.attr.cache, "context": ctx.attr.context, "prefill": ctx.attr.prefill},
    )

language_model = rule(
    implementation = _language_model_impl,
    doc = """\
Exports a language model from the folder of its checkpoint, as Hugging Face publishes it. No code of the folder runs.

The program has a cache of keys and values and one method, `forward`, which ExecuTorch's `TextLLMRunner` calls: tokens,
int64 [1, 1 to `prefill`], and the number of tokens before them, int64 [1], to the logits of the next token, float32 [1, 1,
vocabulary]. Its network is the one of the `transformers` library, and a separate action stores its weights.
""",
    attrs = dict(CHECKPOINT_ATTRS, **{
        "cache": attr.string(
            default = LANGUAGE_MODEL_CACHES[0],
            doc = "Dtype of keys and values in the cache: `float32`, `float16`, or `int8` with a scale for each row of a head.",
        ),
        "context": attr.int(
            default = 2048,
            doc = "Tokens that the cache holds: those of the prompt and of the answer, of all turns.",
        ),
        "prefill": attr.int(
            default = 256,
            doc = "The most tokens of one call: the runner passes a longer prompt in several calls.",
        ),
    }),
    provides = [ExportedProgramInfo, LanguageModelInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
