# SPDX-License-Identifier: Apache-2.0
"""Checks of a program of speech: tokens, divergence, texts after each other, the end of the context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.checks import Outcome
from delegatec.language.comparison import divergence
from delegatec.language.speech.recording import check_length
from delegatec.language.speech.reference import SpeechReference
from delegatec.language.speech.running import RunningSpeechModel


@dataclass(frozen=True)
class SpeechChecks:
    """The checks of one program.

    Attributes:
        reference: the model in float.
        model: the program.
        limit: mean Kullback-Leibler divergence from the model, in nats; None if all tokens must be the same.
    """

    reference: SpeechReference
    model: RunningSpeechModel
    limit: float | None = None

    def recordings(self, recordings: Mapping[str, Tensor], count: int) -> Iterator[Outcome]:
        """Yields an outcome for each recording, in turn: a text follows the one before it.

        Args:
            recordings: name -> float32 [samples].
            count: the most tokens of each.
        """
        model = self.model
        for name, waveform in recordings.items():
            problem = check_length(name, waveform, model.least, model.most, model.sampling_rate)
            yield Outcome(name, problem=problem) if problem else self._recording(name, waveform, count)

    def _recording(self, name: str, waveform: Tensor, count: int) -> Outcome:
        count = min(count, self.model.context - 1)
        wanted = self.reference.transcription(waveform, count)
        answer = self.model.transcription(waveform, count, self.reference.eos_ids)
        found = divergence(
            self.reference.logits(waveform, wanted[:-1]), self.model.logits(waveform, wanted[:-1])
        )
        seconds = len(waveform) / self.model.sampling_rate
        figures = {
            "seconds": f"{seconds:.2f}",
            "tokens": str(len(wanted)),
            "divergence": f"{found.mean:.4g} nats",
            "agreement": f"{found.agreement:.1%}",
            "SNR": f"{found.snr_db:.1f} dB",
        }
        problem = None
        text = [token for token in answer if token not in self.reference.eos_ids]
        if self.limit is None and text != wanted:
            problem = Diagnostic(
                "DC517",
                f"the program transcribes {name} as tokens {text}",
                expected=f"{wanted}, the greedy tokens of the model in float",
                help="set maximum_divergence for a program with quantized or float16 weights",
            )
        elif self.limit is not None and not found.mean <= self.limit:
            problem = Diagnostic(
                "DC517",
                f"the predictions for {name} diverge by {found.mean:.4g} nats from the model in float",
                expected=f"at most maximum_divergence = {self.limit:g}",
                help="use smaller groups, or weights with more bits",
            )
        return Outcome(name, figures, problem)

    def bounds(self, waveform: Tensor) -> Outcome:
        """Fills the context; a token beyond it is an error, after which the program works as before."""
        model, context = self.model, self.model.context
        output = model.encode(waveform)
        for position in range(context):
            before = model.after(model.start, position, output)
        problem = None
        try:
            model.after(model.start, context, output)
        except DelegatecError as error:
            if error.diagnostics[0].code != "DC505":
                raise
            if not torch.equal(model.after(model.start, context - 1, output), before):
                problem = "a token beyond the context changes later results"
        else:
            problem = f"token {context + 1} of a context of {context} is accepted"
        found = Diagnostic("DC517", problem, expected="an error that changes nothing") if problem else None
        return Outcome("the context", {"tokens": str(context)}, found)
