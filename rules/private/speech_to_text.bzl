# SPDX-License-Identifier: Apache-2.0
"""`speech_to_text`: a checkpoint's folder to an exported program of speech recognition, which ExecuTorch's runner calls."""

load("//rules:providers.bzl", "ExportedProgramInfo", "LanguageModelInfo")
load(":checkpoint.bzl", "CACHE_ATTRS", "CHECKPOINT_ATTRS", "cache_problems", "checkpoint_problems", "export_checkpoint")
load(":options.bzl", "fail_with_all", "problem")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_SIZES = {"context": "tokens", "seconds": "seconds of audio"}

# Attributes that are arguments of the function.
_SETTINGS = ["cache", "language", "task"] + list(_SIZES)

def _problems(ctx):
    """Returns the problems of the sizes that are known before anything is built."""
    return [
        problem(
            "DC138",
            "%s = %d is not a number of %s" % (name, getattr(ctx.attr, name), what),
            expected = "1 or more, or 0 for as many as the model takes",
        )
        for name, what in _SIZES.items()
        if getattr(ctx.attr, name) < 0
    ]

def _speech_to_text_impl(ctx):
    fail_with_all(ctx.label, checkpoint_problems(ctx) + cache_problems(ctx, "a model of speech") + _problems(ctx))
    return export_checkpoint(
        ctx,
        kind = "speech_to_text",
        arguments = {name: getattr(ctx.attr, name) for name in _SETTINGS},
    )

speech_to_text = rule(
    implementation = _speech_to_text_impl,
    doc = """\
Exports a model of speech recognition from the folder of its checkpoint, as Hugging Face publishes it: Whisper or Moonshine.
No code of the folder runs.

The program has the methods that ExecuTorch's runner of speech recognition calls. `encoder` takes a waveform, float32 [1, 1,
samples], at the sampling rate of the model, and computes its features, such as a log-mel spectrogram, too. `text_decoder`
takes a token, int64 [1, 1], the encoder's output, and the number of tokens before it, int64 [1], and returns the logits of
the next token, float32 [1, 1, vocabulary]. Keys and values of earlier tokens and of the encoder's output are its state.
""",
    attrs = dict(dict(CHECKPOINT_ATTRS, **CACHE_ATTRS), **{
        "context": attr.int(
            doc = "Tokens of a text, with those before it. 0: as many as the model can have.",
        ),
        "language": attr.string(
            doc = "Language of the audio for a multilingual Whisper, as in its `generation_config.json`, such as `de`. By " +
                  "default that of the file, or the most probable one.",
        ),
        "seconds": attr.int(
            doc = "Seconds of the longest audio. 0: those of the windows that the model takes, such as Whisper's 30, and 30 for " +
                  "models that take audio of any length.",
        ),
        "task": attr.string(
            doc = "What a multilingual Whisper writes: `transcribe`, or `translate` for a text in English. By default that of " +
                  "the file.",
        ),
    }),
    provides = [ExportedProgramInfo, LanguageModelInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
