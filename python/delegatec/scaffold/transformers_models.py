# SPDX-License-Identifier: Apache-2.0
"""Models of transformers with one input: their classes, and an example of the input."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, Final

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic

# Of a sentence, and of a second of sound.
_TOKENS: Final = 128
_SOUND: Final = 16000
_PIXELS: Final = 224
# An export holds the weights several times.
_MOST_BYTES: Final = 8_000_000_000
# Types whose default would be accepted otherwise; the device of the check has no values.
_BRANCHING: Final = frozenset({"encodec"})


@dataclass(frozen=True)
class Found:
    """A model.

    Attributes:
        model: its class in transformers.
        config: the class of its configuration.
        model_type: such as "mobilebert".
        argument: the name of its input.
        input: a Python expression of an example, which may use the variable `config`.
        weight_bytes: size of its weights in float32.
    """

    model: str
    config: str
    model_type: str
    argument: str
    input: str
    weight_bytes: int


@dataclass(frozen=True)
class Refusal:
    """Why a name does not give a model, and what does."""

    problem: str
    expected: str
    help: str = ""


def find(name: str) -> Found | Refusal:
    """Finds a model by the name of its class, or by its type: the first word of most names of checkpoints.

    Args:
        name: such as "MobileBertModel", "mobilebert", "google/mobilebert-uncased".

    Raises:
        DelegatecError: DC006, transformers, or a library that the model needs, is not installed.
    """
    try:
        import transformers
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
    except ImportError as error:
        diagnostic = Diagnostic(
            "DC006", f"transformers cannot be imported: {error}", help="install transformers"
        )
        raise DelegatecError([diagnostic]) from error
    cls = getattr(transformers, name, None) if name.isidentifier() else None
    if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)):
        model_type = _type_of(name, CONFIG_MAPPING_NAMES)
        class_name = MODEL_MAPPING_NAMES.get(model_type or "")
        if class_name is None:
            near = difflib.get_close_matches(name, [*MODEL_MAPPING_NAMES], n=3, cutoff=0.5)
            hint = f"; near it: {', '.join(near)}" if near else ""
            return Refusal(
                f"transformers has no model {name}{hint}",
                "a type such as mobilebert, or a class such as ViTModel",
            )
        class_name = class_name if isinstance(class_name, str) else class_name[0]
        cls = getattr(transformers, class_name, None)
        if cls is None:
            problem = f"transformers {transformers.__version__} lists {class_name} without having it"
            return Refusal(problem, "another model")
    return _found(cls)


def _type_of(name: str, types: Any) -> str | None:
    """Returns the longest type that a name of a checkpoint begins with."""
    words = name.rpartition("/")[2].lower().replace("_", "-")
    spelled = {each.lower().replace("_", "-"): each for each in types}
    fitting = [each for each in spelled if words == each or words.startswith((f"{each}-", f"{each}."))]
    return spelled[max(fitting, key=len)] if fitting else None


def _found(cls: Any) -> Found | Refusal:
    try:
        config_class = cls.config_class
    except ImportError as error:  # of a class that stands for one that needs a library
        raise _needs_library(cls.__name__, error) from error
    try:
        config = config_class()
        if cls._can_set_experts_implementation():
            # The usual one has no shape in float32 on the meta device.
            config._experts_implementation = "batched_mm"
        with torch.device("meta"), torch.no_grad():
            model = cls(config).eval()
    except ImportError as error:
        raise _needs_library(cls.__name__, error) from error
    except Exception as error:  # noqa: BLE001 - of any model of transformers
        return Refusal(
            f"{cls.__name__} cannot be built with the default {config_class.__name__}: {_line(error)}",
            "a model with a configuration by default",
            f"write a model (docs/models.md) with your {config_class.__name__}",
        )
    if config.is_encoder_decoder:
        return Refusal(
            f"{cls.__name__} has an encoder and a decoder",
            "a model with one input",
            "write the methods (docs/models.md); for speech, use speech_to_text (docs/language_models.md)",
        )
    kinds = cls.input_modalities
    if isinstance(kinds, tuple) and len(kinds) > 1:
        return Refusal(
            f"{cls.__name__} has several inputs: {', '.join(kinds)}",
            "a model with one input, such as the part for images: CLIPVisionModel",
        )
    weight_bytes = 4 * sum({id(each): each.numel() for each in model.parameters()}.values())
    if config_class.model_type in _BRANCHING:
        return Refusal(
            f"{cls.__name__} branches on values of tensors, which torch.export refuses",
            "a model whose branches depend on shapes and constants",
        )
    if weight_bytes > _MOST_BYTES:
        size = f"{weight_bytes / 1e9:.0f} GB"
        return Refusal(
            f"{cls.__name__} with the default {config_class.__name__} has {size} of weights",
            f"at most {_MOST_BYTES / 1e9:.0f} GB in float32: an export holds the weights several times",
            f"write a model (docs/models.md) with a smaller {config_class.__name__}, or build the folder of "
            "a checkpoint with language_model (docs/language_models.md)",
        )
    examples = _examples(cls.main_input_name, config)
    if not examples:
        return Refusal(
            f"the input {cls.main_input_name} of {cls.__name__} is unknown",
            "a model of text, images or sound",
        )
    problems = []
    for expression, value in examples:
        problem = _call_problem(model, cls.main_input_name, value)
        if not problem:
            names = cls.__name__, config_class.__name__, config_class.model_type
            return Found(*names, cls.main_input_name, expression, weight_bytes)
        problems.append(problem)
    return Refusal(
        f"{cls.__name__} cannot be called with an example of its {cls.main_input_name} alone: {problems[0]}",
        "a model with one input of text, images or sound",
        "write a model (docs/models.md) with all its inputs",
    )


def _needs_library(name: str, error: ImportError) -> DelegatecError:
    problem = f"{name} needs a library: {_line(error)}"
    return DelegatecError([Diagnostic("DC006", problem, help="install it")])


def _call_problem(model: Any, argument: str, value: torch.Tensor) -> str:
    """Returns why a model on the meta device does not accept an input; "" if it does.

    Errors that name the device are of this device, which has no values.
    """
    try:
        with torch.device("meta"), torch.no_grad():
            model(**{argument: value}, return_dict=False)
    except NotImplementedError:
        return ""  # an operator that the device lacks
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        return "" if "meta" in str(error) else _line(error)
    except Exception:  # noqa: BLE001 - of any model of transformers
        return ""
    return ""


def _line(error: Exception) -> str:
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def _examples(argument: str, config: Any) -> list[tuple[str, torch.Tensor]]:
    """Returns expressions of examples, and tensors like them on the meta device: the usual one first."""
    if argument == "input_ids" and hasattr(config, "vocab_size"):
        sizes = (1, _tokens(config))
        tokens = torch.empty(sizes, dtype=torch.int64, device="meta")
        return [(f"torch.randint(config.vocab_size, {sizes})", tokens)]
    if argument == "pixel_values":
        channels = getattr(config, "num_channels", 3)
        size = getattr(config, "image_size", None) or _PIXELS
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        image = _floats(1, channels, height, width)
        return [(f"torch.rand(1, {channels}, {height}, {width})", image)]
    if argument == "input_values" and hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        sizes = (config.max_length, config.num_mel_bins)
        return [("torch.rand(1, config.max_length, config.num_mel_bins)", _floats(1, *sizes))]
    if argument == "input_values":
        # with a channel for models that have several
        return [(f"torch.rand{sizes}", _floats(*sizes)) for sizes in ((1, _SOUND), (1, 1, _SOUND))]
    return []


def _floats(*sizes: int) -> torch.Tensor:
    return torch.empty(sizes, device="meta")


def _tokens(config: Any) -> int:
    longest = getattr(config, "max_position_embeddings", None)
    # -1 for no limit
    return min(_TOKENS, longest) if isinstance(longest, int) and longest > 0 else _TOKENS
