# SPDX-License-Identifier: Apache-2.0
"""Prompts of images and text: the token of the checkpoint for an image stands for one.

In lists of tokens, an embedding of an image is a negative number: what handles tokens handles images, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.reference import TextTokenizer


def embedding_number(token: int) -> int:
    """Returns the index of an embedding among those of all images, or the negative number of one."""
    return -1 - token


class ImageTokenizer(TextTokenizer):
    """The tokenizer of a folder, and images.

    Args:
        directory: a directory with `tokenizer.json`.
        image_token: id of the token for an image.
        images: uint8 [3, height, width]; those of a prompt are the first ones.
        size: embeddings of an image.

    Attributes:
        image_text: text of the token for an image.

    Raises:
        DelegatecError: as `TextTokenizer`; DC117, it has no such token.
    """

    def __init__(self, directory: str, image_token: int, images: Sequence[Tensor], size: int) -> None:
        super().__init__(directory)
        self.image_text: str = self._tokenizer.id_to_token(image_token) or ""
        if not self.image_text:
            text = f"tokenizer.json has no token {image_token}, which the configuration has for an image"
            help = "use files that were published together"
            raise DelegatecError([Diagnostic("DC117", text, expected="the token for an image", help=help)])
        self._images, self._size = images, size

    def parts(self, prompt: str) -> list[str | Tensor]:
        """Returns the texts and the images of a prompt, in their order.

        Raises:
            DelegatecError: DC504, the prompt has more images than there are.
        """
        return [self._images[part] if isinstance(part, int) else part for part in self._parts(prompt)]

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a prompt; those of an image are negative.

        Raises:
            DelegatecError: as `parts`; DC504, it begins with an image, before which the runner adds no token.
        """
        if self.bos and text.startswith(self.image_text):
            problem = f"prompt {text!r} begins with an image"
            expected = "a text before it: the stock runner adds the token at the start to a text only"
            raise DelegatecError([Diagnostic("DC504", problem, expected=expected)])
        tokens: list[int] = []
        for part in self._parts(text):
            if isinstance(part, str):
                tokens += super().encode(part)
            else:
                tokens += (embedding_number(part * self._size + row) for row in range(self._size))
        return tokens

    def _parts(self, prompt: str) -> Iterator[str | int]:
        """Yields texts, and indices of images."""
        texts = prompt.split(self.image_text)
        if len(texts) - 1 > len(self._images):
            text = f"prompt {prompt!r} has {len(texts) - 1} images"
            expected = f"at most {len(self._images)}: an image for each {self.image_text!r}"
            raise DelegatecError([Diagnostic("DC504", text, expected=expected)])
        for index, text in enumerate(texts):
            if index:
                yield index - 1
            if text:
                yield text


def images_of(tokens: Sequence[int], size: int) -> list[int]:
    """Returns the indices of the images in tokens, in their order.

    Args:
        tokens: tokens of `ImageTokenizer.encode`.
        size: embeddings of an image.
    """
    rows = [embedding_number(token) for token in tokens if token < 0]
    return [row // size for row in rows[::size]]
