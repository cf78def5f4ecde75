# SPDX-License-Identifier: Apache-2.0
"""`speech_to_text_test`: compares a program of speech recognition with the model in float, from the samples to the tokens."""

load(":checkpoint_test.bzl", "COMPARISON_ATTRS", "compared_model", "comparison_problems", "comparison_test")
load(":launcher.bzl", "quoted", "runfiles_path")
load(":options.bzl", "fail_with_all")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_LIMITS = ["maximum_divergence"]

def _speech_to_text_test_impl(ctx):
    model = compared_model(ctx, ["speech_to_text"])
    fail_with_all(ctx.label, comparison_problems(ctx, _LIMITS))
    return comparison_test(
        ctx,
        verb = "transcribe",
        limits = _LIMITS,
        arguments = ["--audio=" + runfiles_path(ctx, file) for file in ctx.files.audio] +
                    [quoted("--%s=%s" % item) for item in model.prompt.items()],
        files = ctx.files.audio,
    )

speech_to_text_test = rule(
    implementation = _speech_to_text_test_impl,
    doc = """\
Transcribes recordings with the program of a `speech_to_text`, on this host, and compares it with the model in float, as
`transformers` runs it from the same checkpoint, with its own features.

Without `maximum_divergence`, the greedy tokens must be the same. Recordings follow each other in one loaded program. With a
`runtime`, the program runs there, and not in the compiler's interpreter, and the context is filled to its last token, beyond
which a token is an error.
""",
    attrs = dict(
        COMPARISON_ATTRS,
        audio = attr.label_list(
            mandatory = True,
            allow_empty = False,
            allow_files = [".wav"],
            doc = "Recordings: 16-bit PCM with one channel, at the sampling rate of the model.",
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
