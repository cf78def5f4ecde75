# SPDX-License-Identifier: Apache-2.0
"""Tokens that a model of speech may predict at each position, by its generation_config.json.

Whisper's text begins with its language, its task, and whether it has timestamps; other tokens are suppressed
there, and some everywhere. transformers applies these rules between the model and the choice of a token.
Here, they are part of the logits, so that a runner that takes the most probable token needs none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.language.folder import GENERATION_CONFIG, Description

_LANGUAGES: Final = "lang_to_id"
_TASKS: Final = "task_to_id"
_TASK: Final = "transcribe"


def generation_of(description: Description) -> Mapping[str, Any]:
    """Returns the settings of generation: generation_config.json, else those in config.json."""
    return description.generation or description.config


def with_prompt(description: Description, language: str, task: str) -> Description:
    """Returns a model whose text begins with a language and a task.

    Args:
        description: the model.
        language: one of `generation_config.json`, such as "de"; empty for what the file says.
        task: as there, such as "translate".

    Raises:
        DelegatecError: DC130, the model has others; DC138, it has none.
    """
    settings = generation_of(description)
    problems = []
    chosen = {}
    for name, value, field in (("language", language, _LANGUAGES), ("task", task, _TASKS)):
        if not value:
            continue
        known = [key.strip("<|>") for key in settings.get(field) or ()]
        chosen[name] = value
        text = f'{name} = "{value}"'
        if not known:
            expected = f"a multilingual model, with {field} in {GENERATION_CONFIG}"
            problems.append(Diagnostic("DC138", f"{text} has no effect on this model", expected=expected))
        elif value not in known:
            text, expected = f"{text} is not one of the model", " or ".join(f'"{each}"' for each in known)
            problems.append(Diagnostic("DC130", text, expected=expected, help=did_you_mean(value, known)))
    if problems:
        raise DelegatecError(problems)
    return replace(description, generation={**settings, **chosen}) if chosen else description


def addends(description: Description, vocabulary: int) -> Tensor | None:
    """Returns addends of the logits after each position, float32 [positions, vocabulary]; None for none.

    The last row is that of all later positions. A token that may not follow has minus infinity.

    Args:
        description: the model.
        vocabulary: number of tokens.

    Raises:
        DelegatecError: DC117, a token of the prompt is not in the vocabulary, or the language is unknown.
    """
    settings = generation_of(description)
    suppressed = settings.get("suppress_tokens") or ()
    first = settings.get("begin_suppress_tokens") or ()
    prompt = prompt_of(description)
    if unknown := [each for allowed in prompt for each in allowed if not 0 <= each < vocabulary]:
        raise _mismatch(f"token {unknown[0]}, and the vocabulary {vocabulary} tokens")
    rows = [_row(vocabulary, [*range(vocabulary)], allowed) for allowed in prompt]
    if first:
        rows.append(_row(vocabulary, (*suppressed, *first)))
    if rows or suppressed:
        rows.append(_row(vocabulary, suppressed))
    return torch.stack(rows) if rows else None


def _row(vocabulary: int, suppressed: Collection[int], allowed: Collection[int] = ()) -> Tensor:
    row = torch.zeros(vocabulary)
    row[[each for each in suppressed if 0 <= each < vocabulary]] = -torch.inf
    row[[*allowed]] = 0.0
    return row


def prompt_of(description: Description) -> list[list[int]]:
    """Returns the tokens that may follow the start token, and those after them, by position."""
    settings = generation_of(description)
    languages, tasks = (settings.get(name) or {} for name in (_LANGUAGES, _TASKS))
    language, task = settings.get("language"), settings.get("task")
    # pairs of a position and a token, which older checkpoints have; None for the language that is detected
    forced = settings.get("forced_decoder_ids") or () if language is None and task is None else ()
    tokens = [token for _, token in forced]
    prompt: list[list[int]] = []
    if language is not None and languages:
        known = languages.get(language, languages.get(f"<|{language}|>"))
        if known is None:
            raise _mismatch(f'language "{language}", and its {_LANGUAGES} {", ".join([*languages][:8])}')
        prompt.append([known])
        task = task or _TASK
    elif languages and not any(tokens[:1]):
        prompt.append([*languages.values()])
    elif tokens[:1] and tokens[0] is not None:
        prompt.append([tokens[0]])
    prompt += [[token] for token in tokens[1:]]
    if task is not None and task in tasks:
        prompt.append([tasks[task]])
    silent = settings.get("no_timestamps_token_id")
    if silent is not None and prompt[-1:] != [[silent]]:
        prompt.append([silent])
    return prompt


def _mismatch(text: str) -> DelegatecError:
    help = "use files that were published together"
    return DelegatecError([Diagnostic("DC117", f"{GENERATION_CONFIG} has {text}", help=help)])
