# SPDX-License-Identifier: Apache-2.0
"""`language_model`: a checkpoint's folder to an exported program, which ExecuTorch's stock runner calls."""

load("//rules:providers.bzl", "ExportedProgramInfo", "LanguageModelInfo")
load(":checkpoint.bzl", "CACHE_ATTRS", "CHECKPOINT_ATTRS", "cache_problems", "checkpoint_problems", "choice_problems", "export_checkpoint", "size_problems")
load(":compiler_tables.bzl", "LANGUAGE_MODEL_EXPERTS")
load(":options.bzl", "fail_with_all", "problem")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _adapter_problems(ctx):
    rank, modules = ctx.attr.adapter_rank, ctx.attr.adapter_modules
    if rank < 0:
        return [problem("DC130", "adapter_rank cannot be %d" % rank, expected = "1 or more, such as 16")]
    if bool(rank) == bool(modules):
        return []
    return [problem("DC136", "adapter_rank = %d with adapter_modules = %s" % (rank, modules), expected = "both, or neither")]

def _draft_problems(ctx):
    if 0 <= ctx.attr.draft_tokens and ctx.attr.draft_tokens < max(ctx.attr.prefill, 1):
        return []
    return [problem(
        "DC138",
        "draft_tokens = %d is not between 0 and prefill = %d" % (ctx.attr.draft_tokens, ctx.attr.prefill),
        expected = "0 to prefill - 1 tokens, such as 4",
        help = "a call has one more token than it checks",
    )]

def _language_model_impl(ctx):
    choices = cache_problems(ctx, "a language model")
    choices += choice_problems("experts", ctx.attr.experts, LANGUAGE_MODEL_EXPERTS, "a language model")
    problems = checkpoint_problems(ctx) + choices + size_problems(ctx) + _adapter_problems(ctx) + _draft_problems(ctx)
    fail_with_all(ctx.label, problems)
    arguments = {"cache": ctx.attr.cache, "context": ctx.attr.context, "prefill": ctx.attr.prefill}
    if ctx.attr.adapter_rank:
        arguments.update(adapter_modules = ctx.attr.adapter_modules, adapter_rank = ctx.attr.adapter_rank)
    if ctx.attr.draft_tokens:
        arguments["draft_tokens"] = ctx.attr.draft_tokens
    if ctx.attr.experts != LANGUAGE_MODEL_EXPERTS[0]:
        arguments["experts"] = ctx.attr.experts
    return export_checkpoint(ctx, kind = "language_model", arguments = arguments)

language_model = rule(
    implementation = _language_model_impl,
    doc = """\
Exports a language model from the folder of its checkpoint, as Hugging Face publishes it. No code of the folder runs.

The program has a cache of keys and values and one method, `forward`, which ExecuTorch's `TextLLMRunner` calls: tokens,
int64 [1, 1 to `prefill`], and the number of tokens before them, int64 [1], to the logits of the next token, float32 [1, 1,
vocabulary]. Its network is the one of the `transformers` library, and a separate action stores its weights.
""",
    attrs = dict(dict(CHECKPOINT_ATTRS, **CACHE_ATTRS), **{
        "adapter_modules": attr.string_list(
            doc = "Names of the linear layers that adapters change, or the last parts of these names, such as `q_proj`.",
        ),
        "adapter_rank": attr.int(
            doc = "Largest rank of the adapters (LoRA) that an app may load next to the program, each a `language_model_adapter`. " +
                  "0: none.",
        ),
        "context": attr.int(
            default = 2048,
            doc = "Tokens that the cache holds: those of the prompt and of the answer, of all turns.",
        ),
        "draft_tokens": attr.int(
            doc = "The most tokens of a draft model that a call checks, for speculative decoding: it returns the logits after " +
                  "these and the token before them, float32 [1, `draft_tokens` + 1, vocabulary], in place of the last.",
        ),
        "experts": attr.string(
            default = LANGUAGE_MODEL_EXPERTS[0],
            doc = "How a mixture of experts computes: `rows`, each expert in separate layers for the rows of the tokens that " +
                  "chose it, on a CPU; or `matrices`, each row in a product with the matrices of its expert, which MLX reads " +
                  "where they are, and other backends copy.",
        ),
        "prefill": attr.int(
            default = 256,
            doc = "The most tokens of one call: the runner passes a longer prompt in several calls.",
        ),
    }),
    provides = [ExportedProgramInfo, LanguageModelInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
