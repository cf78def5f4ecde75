# SPDX-License-Identifier: Apache-2.0
"""Checks of a language model's program: tokens, divergence, turns, and the bounds of its context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.comparison import divergence, perplexity
from delegatec.language.reference import Reference, TextTokenizer
from delegatec.language.running import RunningModel
from delegatec.language.speculation import speculate
from delegatec.verify.runtime import TextRunner


@dataclass(frozen=True)
class Limits:
    """What a program may depart from the model in float.

    Attributes:
        divergence: mean Kullback-Leibler divergence, in nats; None if all tokens must be the same.
        perplexity: the program's perplexity of a text, as a multiple of the model's; None for no limit.
        acceptance: the least share of a draft model's tokens that are the program's.
    """

    divergence: float | None = None
    perplexity: float | None = None
    acceptance: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of a check.

    Attributes:
        name: its subject, such as a prompt.
        figures: name -> the measurement.
        problem: why it failed.
    """

    name: str
    figures: dict[str, str] = field(default_factory=dict)
    problem: Diagnostic | None = None


@dataclass(frozen=True)
class LanguageModelChecks:
    """The checks of one program.

    Attributes:
        reference: the model in float.
        tokenizer: its tokenizer.
        model: the program.
        runner: the stock runner with the same program; None without one.
        limits: what the program may depart.
        draft: the program of a draft model; None without one.
    """

    reference: Reference
    tokenizer: TextTokenizer
    model: RunningModel
    runner: TextRunner | None
    limits: Limits
    draft: RunningModel | None = None

    def prompts(self, prompts: Sequence[str], count: int) -> Iterator[Outcome]:
        """Yields an outcome for each prompt, and one for each answer of the runner.

        Args:
            prompts: the texts.
            count: tokens to generate for each.
        """
        for prompt in prompts:
            tokens = self.tokenizer.bos + self.tokenizer.encode(prompt)
            room = self.model.context - len(tokens)
            if not tokens or room < 1:
                text = f"prompt {prompt!r} has {len(tokens)} tokens"
                yield Outcome(
                    repr(prompt),
                    problem=Diagnostic("DC504", text, expected=f"1 to {self.model.context - 1} tokens"),
                )
                continue
            wanted = self.reference.continuation(tokens, min(count, room))
            answer = self.model.continuation(tokens, min(count, room), self.reference.eos_ids)
            yield self._prompt(prompt, tokens, wanted, answer)
            if self.draft is not None:
                yield self._drafts(self.draft, prompt, tokens, answer)
            if self.runner is not None:
                yield self._runner(self.runner, prompt, tokens, answer)

    def _prompt(self, prompt: str, tokens: list[int], wanted: list[int], answer: list[int]) -> Outcome:
        text = tokens + wanted[:-1]
        found = divergence(
            self.reference.logits(text)[len(tokens) - 1 :], self.model.logits(text, len(tokens))
        )
        figures = {
            "tokens": str(len(wanted)),
            "divergence": f"{found.mean:.4g} nats",
            "agreement": f"{found.agreement:.1%}",
            "SNR": f"{found.snr_db:.1f} dB",
        }
        problem = None
        limit = self.limits.divergence
        if limit is None and answer != wanted:
            problem = Diagnostic(
                "DC517",
                f"the program continues {prompt!r} with {self.tokenizer.decode(answer)!r}",
                expected=f"{self.tokenizer.decode(wanted)!r}, the greedy tokens of the model in float",
                help="set maximum_divergence for a program with quantized or float16 weights",
            )
        elif limit is not None and not found.mean <= limit:
            problem = Diagnostic(
                "DC517",
                f"the predictions after {prompt!r} diverge by {found.mean:.4g} nats from the model in float",
                expected=f"at most maximum_divergence = {limit:g}",
                help="use smaller groups, or weights with more bits",
            )
        return Outcome(repr(prompt), figures, problem)

    def _drafts(self, draft: RunningModel, prompt: str, tokens: list[int], answer: list[int]) -> Outcome:
        """Continues a prompt again, with tokens of a draft model."""
        found = speculate(self.model, draft, tokens, len(answer), self.reference.eos_ids)
        share = found.accepted / found.drafted if found.drafted else 1.0
        figures = {
            "drafted": str(found.drafted),
            "accepted": f"{share:.1%}",
            "tokens in a call": f"{(len(found.tokens) - 1) / max(found.calls, 1):.2f}",
        }
        problem = None
        if not found.limit:
            problem = Diagnostic(
                "DC514",
                "a draft model has no effect: the program returns the logits of one token",
                expected="a program with draft_tokens, such as 4",
            )
        elif found.tokens != answer:
            problem = Diagnostic(
                "DC517",
                f"with drafts, the program continues {prompt!r} with {self.tokenizer.decode(found.tokens)!r}",
                expected=f"{self.tokenizer.decode(answer)!r}, as without them",
            )
        elif share < self.limits.acceptance:
            problem = Diagnostic(
                "DC517",
                f"{share:.1%} of the tokens that are drafted after {prompt!r} are those of the program",
                expected=f"at least minimum_acceptance = {self.limits.acceptance:g}",
                help="use a draft model that was trained on the same texts, or with more bits",
            )
        return Outcome(f"{prompt!r}, drafts", figures, problem)

    def _runner(self, runner: TextRunner, prompt: str, tokens: list[int], answer: list[int]) -> Outcome:
        """Two turns of the stock runner: the second one is the same prompt again."""
        runner.reset()
        turns = [(tokens, answer)]
        again = tokens + answer[:-1] + self.tokenizer.encode(prompt)
        room = self.model.context - len(again)
        if room >= len(answer):
            turns.append((again, self.model.continuation(again, len(answer), self.reference.eos_ids)))
        for turn, (_, expected) in enumerate(turns):
            name, figures = f"{prompt!r}, runner", {"turns": str(turn + 1)}
            bos, text = 0 if turn else len(self.tokenizer.bos), self.tokenizer.decode(expected)
            try:
                found = runner.generate(prompt, len(answer), bos)
            except DelegatecError as error:
                return Outcome(name, figures, error.diagnostics[0])
            if found.strip() != text.strip():
                problem = Diagnostic(
                    "DC517",
                    f"the runner continues {prompt!r} with {found!r} in turn {turn + 1}",
                    expected=f"{text!r}, as the program itself",
                    help="compare the tokenizer's files with those of the checkpoint",
                )
                return Outcome(name, figures, problem)
        return Outcome(name, figures)

    def bounds(self, prompt: str) -> Outcome:
        """Fills the context; a token beyond it is an error, after which the program works as before.

        States and windows have no such bound. After another token, a state is another one.
        """
        tokens = self.tokenizer.bos + self.tokenizer.encode(prompt)
        full = (tokens * self.model.context)[: self.model.context]
        self.model.after(full, 0)
        if self.reference.is_recurrent:
            return Outcome("the context", {"tokens": str(len(full))})
        # all rows of the cache matter to the last token
        before = self.model.after(full[-1:], self.model.context - 1)
        problem = None
        try:
            self.model.after(tokens[:1], self.model.context)
        except DelegatecError as error:
            if error.diagnostics[0].code != "DC505":
                raise
            if not torch.equal(self.model.after(full[-1:], self.model.context - 1), before):
                problem = "a token beyond the context changes later results"
        else:
            if not self.reference.is_bounded:
                return Outcome("the context", {"tokens": str(len(full))})
            problem = f"token {self.model.context + 1} of a context of {self.model.context} is accepted"
        found = Diagnostic("DC517", problem, expected="an error that changes nothing") if problem else None
        return Outcome("the context", {"tokens": str(len(full))}, found)

    def perplexity(self, text: str, most: int) -> Outcome:
        """Compares the perplexity of a text.

        Args:
            text: the text.
            most: the most tokens of it.
        """
        tokens = (self.tokenizer.bos + self.tokenizer.encode(text))[: min(most, self.model.context)]
        if len(tokens) < 2:
            short = Diagnostic("DC504", f"the text has {len(tokens)} tokens", expected="2 or more")
            return Outcome("the text", problem=short)
        targets = torch.tensor(tokens[1:])
        wanted = perplexity(self.reference.logits(tokens[:-1]), targets)
        found = perplexity(self.model.logits(tokens[:-1], 1), targets)
        figures = {"tokens": str(len(targets)), "perplexity": f"{found:.4g}", "in float": f"{wanted:.4g}"}
        limit = self.limits.perplexity
        problem = None
        if limit is not None and not found <= wanted * limit:
            problem = Diagnostic(
                "DC517",
                f"the perplexity of the text is {found:.4g}, and {wanted:.4g} of the model in float",
                expected=f"at most {limit:g} times that of the model",
                help="use smaller groups, or weights with more bits",
            )
        return Outcome("the text", figures, problem)
