# SPDX-License-Identifier: Apache-2.0
"""Images of a checkpoint's preprocessor: the pixels of its bytes, and where its settings are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import torch

import delegatec
from delegatec.language.folder import Description
from delegatec.language.vision.images import image_format
from delegatec.language.vision.testing import PREPROCESSOR, random_image, write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_MEAN: Final = torch.tensor([0.5, 0.4, 0.3])
_DEVIATION: Final = torch.tensor([0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("changes", "rescale", "mean", "deviation"),
    [
        ({}, 1 / 255, _MEAN, _DEVIATION),
        ({"rescale_factor": 1 / 127.5}, 1 / 127.5, _MEAN, _DEVIATION),
        ({"do_rescale": False}, 1, _MEAN, _DEVIATION),
        ({"do_normalize": False, "image_mean": None}, 1 / 255, torch.zeros(3), torch.ones(3)),
        ({"image_mean": 0.5, "image_std": 0.25}, 1 / 255, torch.full((3,), 0.5), torch.full((3,), 0.25)),
    ],
)
def test_pixels_of_bytes(
    changes: dict[str, Any], rescale: float, mean: torch.Tensor, deviation: torch.Tensor
) -> None:
    found = image_format(Description({}, {}, PREPROCESSOR | changes), 16)
    values = torch.tensor([0.0, 100.0, 255.0])
    wanted = (values * rescale - mean) / deviation
    pixels = values * torch.tensor(found.scale) + torch.tensor(found.offset)
    torch.testing.assert_close(pixels, wanted)


def test_a_preprocessor_among_others(tmp_path: Path) -> None:
    """Later folders have one file for those of texts, images and videos."""
    write_family("SmolVLM", tmp_path)
    before = delegatec.vision_language(tmp_path, context=32, prefill=8).module
    path = tmp_path / "preprocessor_config.json"
    settings = {"image_processor": json.loads(path.read_text()), "processor_class": "SmolVLMProcessor"}
    (tmp_path / "processor_config.json").write_text(json.dumps(settings))
    path.unlink()
    after = delegatec.vision_language(tmp_path, context=32, prefill=8).module
    encoded: list[Any] = [module.vision_encoder(random_image(1)) for module in (before, after)]  # type: ignore[operator]
    assert torch.equal(*encoded)
