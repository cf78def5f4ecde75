# SPDX-License-Identifier: Apache-2.0
"""Families of images and text in ExecuTorch's `MultimodalRunner`: the greedy tokens of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor

import delegatec
from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.language.checks import LanguageModelChecks, Limits
from delegatec.language.oracles import oracle_of
from delegatec.language.vision.testing import (
    FAMILIES,
    IMAGE_TOKEN,
    FloatModel,
    random_image,
    write_family,
    write_image,
)
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify.executors import Executor, ReferenceExecutor, RuntimeExecutor
from delegatec.verify.text_runner import RuntimeTextRunner, multimodal_runner_of
from executorch_runtime import RUNTIME

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_TOKENS: Final = 6
_CONTEXT: Final = 64
_PREFILL: Final = 20
_FIRST: Final = 33
"""Code of the character of token 0."""
Parts = Sequence[str | Tensor]


def _write_program(folder: Path, **settings: Any) -> int:
    """Writes the program of a folder there, as model.pte; returns the embeddings of an image."""
    model = delegatec.vision_language(folder, **{"context": _CONTEXT, "prefill": _PREFILL, **settings})
    with (folder / "model.pte").open("wb") as file:
        lowered = lower(export(model), "xnnpack", constant_methods=model.constant_methods)
        write_program(lowered.emitted, file)
    size: int = model.module.network.delegatec_image_tokens
    return size


class _Runner:
    """A program of a family in the stock runner, and the same model in transformers."""

    def __init__(self, name: str, folder: Path) -> None:
        self.model: FloatModel = write_family(name, folder)
        self.size = _write_program(folder)
        self.parts: Parts = ()
        found = multimodal_runner_of(
            RUNTIME, folder / "model.pte", None, folder / "tokenizer.json", lambda _: self.parts
        )
        assert found is not None
        self.runner: RuntimeTextRunner = found
        self.tokens: list[int] = []
        self.images: list[Tensor] = []

    def turn(self, *parts: str | Tensor) -> tuple[str, str]:
        """Returns the answers of the runner and of transformers."""
        self.parts = parts
        found = self.runner.generate("", _TOKENS, 0)
        for part in parts:
            if isinstance(part, str):
                self.tokens += (ord(letter) - _FIRST for letter in part)
            else:
                self.tokens += [IMAGE_TOKEN] * self.size
                self.images.append(part)
        answer = self.model.continuation(self.tokens, self.images, _TOKENS)
        # the last token is not passed to the model
        self.tokens += answer[:-1]
        return found, "".join(chr(_FIRST + token) for token in answer)

    def reset(self) -> None:
        self.runner.reset()
        self.tokens, self.images = [], []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """Text only, an image and text, text around images; a second turn; the same after a reset."""
    runner = _Runner(name, tmp_path)
    first, second = random_image(1), random_image(2)
    for turns in (
        [("What",)],
        [(first, "is")],
        [("In", first, "and"), ("then", "and")],
        [("In", first), (second, "now")] if runner.size < 16 else [("In", second)],
    ):
        runner.reset()
        for parts in turns:
            found, wanted = runner.turn(*parts)
            assert found == wanted


def test_an_error_beyond_the_context(tmp_path: Path) -> None:
    """The last row is used; a runner at the end fails, and answers as before when it is reset."""
    runner = _Runner("SmolVLM", tmp_path)
    image = random_image(1)
    wanted = runner.turn("In", image, "and")
    runner.reset()
    runner.parts = [image] * (_CONTEXT // runner.size - 1)
    runner.runner.generate("", 1, 0)
    # the last of five tokens has no row, and is computed nevertheless
    runner.parts = ["a"]
    runner.runner.generate("", runner.size, 0)
    with pytest.raises(DelegatecError, match="DC505"):
        runner.runner.generate("", 1, 0)
    runner.reset()
    assert runner.turn("In", image, "and") == wanted


@pytest.mark.parametrize("is_stock", [False, True])
@pytest.mark.parametrize("settings", [{}, {"weights": "int4", "group_size": 16}])
def test_checks_of_a_program(settings: dict[str, Any], is_stock: bool, tmp_path: Path) -> None:
    """Those of `delegatec generate`, in the interpreter and in the stock runtime; a full context."""
    write_family("SmolVLM", tmp_path)
    _write_program(tmp_path, **settings)
    paths = [str(tmp_path / f"{seed}.ppm") for seed in (1, 2)]
    for seed, path in enumerate(paths, 1):
        write_image(path, random_image(seed))
    pte = str(tmp_path / "model.pte")
    program = read_program(pte)
    oracle = oracle_of([method.name for method in program.methods], str(tmp_path), paths)
    runner = None
    executor: Executor
    if is_stock:
        runner = oracle.runner(RUNTIME, pte, None)
        executor = RuntimeExecutor(RUNTIME, program, pte, None)
    else:
        executor = ReferenceExecutor(program, oracle.methods, builtin_backends(), {})
    limits = Limits(2.0 if settings else None, 2.0)
    checks = LanguageModelChecks(oracle.reference, oracle.tokenizer, oracle.running(executor), runner, limits)
    image = chr(_FIRST + IMAGE_TOKEN)
    outcomes = [*checks.prompts(["What", f"{image}is", f"In{image}and{image}"], _TOKENS)]
    outcomes += [checks.bounds(f"In{image}and"), checks.perplexity("What?", 5)]
    for outcome in outcomes:
        assert outcome.problem is None, outcome
    assert len(outcomes) == (8 if is_stock else 5)


@pytest.mark.parametrize("name", ["Gemma 3", "SmolVLM"])
def test_a_long_context(name: str, tmp_path: Path) -> None:
    """Attention reads the filled rows of a cache of this size; images beyond windows of attention."""
    text = {**FAMILIES[name][1]["text_config"], "max_position_embeddings": 512}
    if "sliding_window" in text:
        text["sliding_window"] = 40
    model = write_family(name, tmp_path, text_config=text)
    size = _write_program(tmp_path, context=400, prefill=100)
    program = RUNTIME.load(str(tmp_path / "model.pte"), None, shares_state=True)
    tokens: list[int] = []
    images: list[Tensor] = []
    for part in (90, random_image(1), 30, random_image(2), 70, 1, 1):
        if isinstance(part, int):
            added = torch.randint(1, IMAGE_TOKEN, (part,)).tolist()
            (embeddings,) = program.run("token_embedding", [torch.tensor([added])])
        else:
            images.append(part)
            added = [IMAGE_TOKEN] * size
            (embeddings,) = program.run("vision_encoder", [part])
        (logits,) = program.run("text_decoder", [embeddings.clone(), torch.tensor([len(tokens)])])
        tokens += added
        with torch.no_grad():
            wanted = model.network(**model.inputs(tokens, images)).logits[0, -1]
        torch.testing.assert_close(logits[0, 0], wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
