# SPDX-License-Identifier: Apache-2.0
"""Continues what is typed, or answers it, in ExecuTorch's stock runner.

bazel run //examples/chat
bazel run //examples/chat -- --prompt "The captain"
"""

from __future__ import annotations

import argparse
import os

from executorch_runtime.text_runner import ExecutorchTextRunner

# Native code prints its own copy of the text, which the runner of this repository hides.
_TERMINAL = os.fdopen(os.dup(1), "w", encoding="utf-8")


def main() -> None:
    """Reads beginnings of paragraphs, and prints how they continue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the .pte")
    parser.add_argument("--tokenizer", required=True, nargs="+", help="its files, with tokenizer.json")
    parser.add_argument("--prompt", default="", help="continue this text, and end")
    parser.add_argument("--template", help="what the model was trained on, with {} for the text")
    parser.add_argument("--tokens", type=int, default=64, help="the most tokens to generate")
    parser.add_argument("--temperature", type=float, default=0.7, help="0 for the most probable tokens")
    arguments = parser.parse_args()
    tokenizer = next(path for path in arguments.tokenizer if path.endswith("tokenizer.json"))
    runner = ExecutorchTextRunner(arguments.program, None, tokenizer)

    def answer(prompt: str) -> None:
        text = prompt
        if arguments.template:
            text = arguments.template.replace("\\n", "\n").replace("{}", prompt)
        else:
            _print(prompt)
        runner.reset()
        runner.generate(text, arguments.tokens, 0, temperature=arguments.temperature, on_text=_print)
        _print("\n")

    if arguments.prompt:
        answer(arguments.prompt)
        return
    what = "a question" if arguments.template else "the beginning of a paragraph"
    _print(f"Type {what}; an empty line ends.\n")
    while prompt := _read():
        answer(prompt)


def _read() -> str:
    _print("> ")
    try:
        return input()
    except EOFError:
        return ""


def _print(text: str) -> None:
    _TERMINAL.write(text)
    _TERMINAL.flush()


if __name__ == "__main__":
    main()
