# SPDX-License-Identifier: Apache-2.0
"""What a program is compared with, by the kind of its model: of text, or of images and text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.folder import read_folder
from delegatec.language.lora.folder import read_adapter
from delegatec.language.reference import Reference, TextTokenizer
from delegatec.language.running import METADATA, RunningModel
from delegatec.language.vision.network import network_of
from delegatec.language.vision.ppm import read_image
from delegatec.language.vision.prompts import ImageTokenizer
from delegatec.language.vision.reference import ImageTextReference
from delegatec.language.vision.running import METHODS, RunningImageTextModel
from delegatec.verify.executors import Executor
from delegatec.verify.runtime import Runtime
from delegatec.verify.text_runner import RuntimeTextRunner, multimodal_runner_of, text_runner_of


@dataclass(frozen=True)
class Oracle:
    """The model in float, and how a program and a runner of the same model are called.

    Attributes:
        reference: the model in float.
        tokenizer: its tokenizer.
        methods: methods of the program, in the order in which they are loaded.
        running: returns a program in an executor.
        runner: returns a runtime's runner with the files of a program; None if it has none.
    """

    reference: Reference
    tokenizer: TextTokenizer
    methods: tuple[str, ...]
    running: Callable[[Executor], RunningModel]
    runner: Callable[[Runtime, str, str | None], RuntimeTextRunner | None]


def oracle_of(
    methods: Collection[str], directory: str, images: Sequence[str] = (), adapter: str = ""
) -> Oracle:
    """Returns what a program is compared with.

    Args:
        methods: names of the program's methods.
        directory: the folder of the checkpoint.
        images: paths of images, for the prompts of a model of images and text.
        adapter: the folder of an adapter, for a model of text; empty for none.

    Raises:
        DelegatecError: DC115 to DC117, the folder is incomplete or damaged; DC138, its family is not
            supported; DC504, an image is not one that the program takes; DC507, the program is of text only,
            or of another kind.
    """
    if "vision_encoder" in methods:
        return _of_images(directory, images)
    if images or "forward" not in methods:
        text = f"the program has the methods {', '.join(sorted(methods))}"
        expected = "those of a vision_language model" if images else "those of a language model"
        raise DelegatecError([Diagnostic("DC507", text, expected=expected)])
    tokenizer = TextTokenizer(directory)
    return Oracle(
        Reference(directory, read_adapter(adapter) if adapter else None),
        tokenizer,
        ("forward", *METADATA),
        RunningModel,
        lambda runtime, pte, ptd: text_runner_of(runtime, pte, ptd, tokenizer.path),
    )


def _of_images(directory: str, paths: Sequence[str]) -> Oracle:
    network = network_of(read_folder(directory).description)
    images = [read_image(path, network.delegatec_image) for path in paths]
    token, size = network.config.image_token_id, network.delegatec_image_tokens
    tokenizer = ImageTokenizer(directory, token, images, size)
    return Oracle(
        ImageTextReference(directory, network, images),
        tokenizer,
        METHODS,
        lambda executor: RunningImageTextModel(executor, images),
        lambda runtime, pte, ptd: multimodal_runner_of(runtime, pte, ptd, tokenizer.path, tokenizer.parts),
    )
