# SPDX-License-Identifier: Apache-2.0
"""`vision_language`: a checkpoint's folder to an exported program of images and text, which ExecuTorch's stock runner calls."""

load("//rules:providers.bzl", "ExportedProgramInfo", "LanguageModelInfo")
load(":checkpoint.bzl", "CACHE_ATTRS", "CHECKPOINT_ATTRS", "cache_problems", "checkpoint_problems", "export_checkpoint", "size_problems")
load(":options.bzl", "fail_with_all")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _vision_language_impl(ctx):
    cache = cache_problems(ctx, "a model of images and text")
    fail_with_all(ctx.label, checkpoint_problems(ctx) + cache + size_problems(ctx))
    return export_checkpoint(
        ctx,
        kind = "vision_language",
        arguments = {"cache": ctx.attr.cache, "context": ctx.attr.context, "prefill": ctx.attr.prefill},
    )

vision_language = rule(
    implementation = _vision_language_impl,
    doc = """\
Exports a language model of images and text from the folder of its checkpoint, as Hugging Face publishes it. No code of the
folder runs.

The program has the methods that ExecuTorch's `MultimodalRunner` calls: `vision_encoder`, an image, uint8 [3, height, width],
to its embeddings, float32 [1, tokens, hidden], where bytes are normalized as `preprocessor_config.json` says;
`token_embedding`, tokens, int64 [1, n], to theirs; and `text_decoder`, embeddings, float32 [1, 1 to `prefill`, hidden], and
the number of those before them, int64 [1], to the logits of the next token, float32 [1, 1, vocabulary].
""",
    attrs = dict(dict(CHECKPOINT_ATTRS, **CACHE_ATTRS), **{
        "context": attr.int(
            default = 2048,
            doc = "Tokens that the cache holds: those of texts, images and answers, of all turns.",
        ),
        "prefill": attr.int(
            default = 1024,
            doc = "The most tokens of one call: at least those of an image, and of a text between images, which the runner " +
                  "does not split.",
        ),
        "vision_weights": attr.string(
            doc = "Dtype of the weights of linear layers that encode images: as `weights`, with its groups if it is the same. " +
                  "By default `int8` next to int8 and int4 weights, and otherwise the dtype of the weights.",
        ),
    }),
    provides = [ExportedProgramInfo, LanguageModelInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
