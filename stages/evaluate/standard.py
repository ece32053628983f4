"""Warm-up model against policy, and the reward model, on questions that nothing was trained on.

- The warm-up model's answers are the test candidates; the policy answers the same prompts with the
  same random streams, so that differences are paired. Every mean has a bootstrap interval.
- `blind` asks the policy with the gold documents taken out of the context: what it still gets
  right, it did not read there.
- The reward model orders held-out pairs, and picks the best of N.

The reward measured is `evaluate.reward`, whatever the policy was trained on, so that runs with
different rewards compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from schemas.errors import UserError
from schemas.ids import seeded
from stages.evaluate._reward_model import best_of_n_rows, pair_rows
from stages.evaluate._slices import by_slice, compare, difference, mean, select
from stages.llm.answer import SAMPLED, Answer, sampled
from stages.llm.layer import LanguageModel
from stages.llm.library import Item, items, load_documents
from stages.llm.model import Model
from stages.llm.prompts import load_template, render_prompt
from stages.llm.request import Request, Sampling
from stages.llm.reward_model import load_reward_model, score, scoring_batch, sequence
from stages.llm.tokenizer import load_tokenizer
from stages.rewards.build import entities_by_question, make_sample, row_status
from stages.rewards.sample import sample_response
from stages.rewards.score import score_group
from stages.rewards.spec import RewardConfig, RewardModelTerm
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.seeds import deterministic, device
from stages.runtime.variant import StageConfig

Answers = Mapping[int, Answer]
"""The answers to one question by the number of the sample; failed ones are among them."""


class Config(StageConfig):
    kind: Literal["standard"]
    reward: RewardConfig
    split: Literal["validation", "test"]
    samples: int = Field(ge=1, description="Samples a question; at most candidates.samples")
    sampling: Sampling
    best_of: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    view: Literal["long", "short"]
    prompt: str
    candidates_seed: int = Field(ge=0)
    seed: int = Field(ge=0)

    @field_validator("reward")
    @classmethod
    def _programmatic(cls, reward: RewardConfig) -> RewardConfig:
        named = [n for n, term in reward.terms.items() if isinstance(term, RewardModelTerm)]
        if named:
            raise ValueError(f"the reward that is measured cannot use a reward model: {named}")
        return reward


def run(config: Config, context: StageContext) -> dict[str, Any]:
    deterministic(config.seed, context.params.runtime)
    candidates: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in context.dataset("candidates").rows("split = ?", parameters=[config.split]):
        candidates[row["question_id"]].append(row)
    tokenizer = load_tokenizer(context.model("policy"))
    chosen = [
        item
        for item in items(
            context,
            load_template(config.prompt),
            tokenizer,
            view=config.view,
            splits=[config.split],
        )
        if item.question["question_id"] in candidates
    ]
    if not chosen:
        raise UserError(
            f"evaluate: no candidates for the {config.split} split",
            fix=f"raise candidates.questions.{config.split} above 0",
        )
    check_candidates(config, chosen, candidates)
    entities = entities_by_question(context.read("rubrics"))
    slices = {item.question["question_id"]: slice_columns(item) for item in chosen}

    rows: list[dict[str, Any]] = []
    with LanguageModel.of(context, Model(folder=str(context.model("policy")))) as policy:
        for system, answers in (
            ("warmup", warmup_answers(chosen, candidates, config)),
            ("policy", policy_answers(config, policy, chosen, config.samples)),
            ("blind", blind_answers(config, context, policy, tokenizer, chosen)),
        ):
            rows += answer_rows(config, system, chosen, answers, entities, slices)
    rows += reward_model_rows(config, context, tokenizer, chosen, candidates, slices)

    writer = context.writer("evaluations")
    for row in rows:
        writer.add(row)
    context.finish("evaluations", rows_in=len(rows))
    table = by_slice(
        [row for row in rows if row["system"] in ("warmup", "policy")],
        "warmup", "policy", "reward", config.seed,
    )  # fmt: skip
    context.plot("evaluate", table)
    measured = measurements(config, rows, len(chosen))
    context.details(measured)
    return headline(measured)


def headline(measured: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that runs are compared by, flat, with the intervals of the differences."""
    answers, model = measured["answers"], measured["reward_model"]
    largest = max((key for key in model if key.startswith("best_of_")), key=lambda k: int(k[8:]))
    numbers = {
        "warmup_reward": answers["reward"]["warmup"]["value"],
        "policy_reward": answers["reward"]["policy"]["value"],
    }
    for name, interval in (
        ("reward_gain", answers["reward"]["difference"]),
        ("pair_accuracy", model["pair_accuracy"]),
        (f"{largest}_gain", model[largest]["over_random"]),
    ):
        numbers |= {
            name: interval["value"],
            f"{name}_low": interval["low"],
            f"{name}_high": interval["high"],
        }
    return numbers


def measurements(
    config: Config, rows: Sequence[Mapping[str, Any]], questions: int
) -> dict[str, Any]:
    """Everything that was measured, each number with its interval."""
    measures = ("reward", *config.reward.terms)
    result: dict[str, Any] = {
        "questions": questions,
        "answers": {m: compare(rows, "warmup", "policy", m, config.seed) for m in measures},
        "blind": {m: mean(select(rows, "blind", m), config.seed) for m in measures},
        "reward_model": {
            "pair_accuracy": mean(select(rows, "reward_model", "pair_correct"), config.seed)
        },
    }
    for size in config.best_of:
        measure = f"outcome_at_{size}"
        picks = {s: select(rows, s, measure) for s in ("best_of_n", "random_pick", "oracle")}
        result["reward_model"][f"best_of_{size}"] = {
            **{system: mean(found, config.seed) for system, found in picks.items()},
            "over_random": difference(picks["best_of_n"], picks["random_pick"], config.seed),
        }
    return result


def slice_columns(item: Item) -> dict[str, Any]:
    """What every row of a question carries to be sliced by."""
    return {
        "split": item.question["split"],
        "hops": item.question["hops"],
        "n_tokens": item.context["n_tokens"],
        "budget_tokens": item.context["budget_tokens"],
        "gold_position": item.context["gold_position"],
        "hardest_tier": item.context["hardest_tier"],
    }


def check_candidates(
    config: Config,
    chosen: Sequence[Item],
    candidates: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    """The candidates must be enough, and answers to the very prompts that the policy gets.

    Their citations would else be read against the numbers of another prompt.
    """
    numbers = [row["sample"] for item in chosen for row in candidates[item.question["question_id"]]]
    most = max(numbers) + 1  # single ones may have failed
    for name, wanted in (("samples", config.samples), ("best_of", max(config.best_of))):
        if most < wanted:
            raise UserError(
                f"evaluate.{name} asks for {wanted} candidates, but a question has {most}",
                fix=f"lower evaluate.{name} or raise candidates.samples",
            )
    for item in chosen:
        drawn = candidates[item.question["question_id"]]
        if any(row["prompt_hash"] != item.prompt.hash for row in drawn):
            raise UserError(
                "evaluate renders other prompts than the candidates answered (candidates: view "
                f"{drawn[0]['view']}; evaluate: view {config.view}, prompt {config.prompt})",
                fix="leave evaluate.view and evaluate.prompt as candidates has them",
            )


def warmup_answers(
    chosen: Sequence[Item], candidates: Mapping[str, Sequence[Mapping[str, Any]]], config: Config
) -> list[Answers]:
    """The first samples of each question; one that could not be drawn is missing."""
    return [
        {
            row["sample"]: Answer("ok" if row["finish_reason"] == "stop" else "length", row["text"])
            for row in sorted(
                candidates[item.question["question_id"]], key=lambda row: int(row["sample"])
            )
            if row["sample"] < config.samples
        }
        for item in chosen
    ]


def policy_answers(
    config: Config, policy: LanguageModel, chosen: Sequence[Item], samples: int
) -> list[Answers]:
    """The policy's answers to the same prompts, with the candidates' random streams."""
    prompts = [item.prompt.text for item in chosen]
    return _answers(config, policy, chosen, prompts, samples, "policy")


def blind_answers(
    config: Config,
    context: StageContext,
    policy: LanguageModel,
    tokenizer: Any,
    chosen: Sequence[Item],
) -> list[Answers]:
    """The policy's answers with the gold documents left out of the prompts, one sample each."""
    template = load_template(config.prompt)
    prompts = []
    for item in chosen:
        ids = [entry["doc_id"] for entry in item.context["documents"] if entry["role"] != "gold"]
        library = load_documents(context.dataset("documents"), context.dataset("chunks"), ids)
        documents = [library[doc_id] for doc_id in ids]
        prompts.append(
            render_prompt(template, item.question["question"], documents, tokenizer).text
        )
    return _answers(config, policy, chosen, prompts, 1, "blind")


def _answers(
    config: Config,
    policy: LanguageModel,
    chosen: Sequence[Item],
    prompts: Sequence[str],
    samples: int,
    label: str,
) -> list[Answers]:
    asked = [
        [
            Request(
                f"{label}/{question_id}/{sample}",
                prompt,
                seeded(config.candidates_seed, question_id, sample),
                group=question_id,
            )
            for sample in range(samples)
        ]
        for item, prompt in zip(chosen, prompts, strict=True)
        for question_id in [item.question["question_id"]]
    ]
    answers = policy.ask(
        (request for group in asked for request in group), config.sampling, complete=SAMPLED,
        label=label,
    )  # fmt: skip
    return [
        {sample: answers[request.id] for sample, request in enumerate(group)} for group in asked
    ]


def answer_rows(
    config: Config,
    system: str,
    chosen: Sequence[Item],
    answers: Sequence[Answers],
    entities: Mapping[str, tuple[str, ...]],
    slices: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """The reward and its raw terms, for each sample of each question.

    A term that has a value keeps it, with the response's status, where another term failed. A
    request that failed has no values, and its status says why.
    """
    rows = []
    measures = ("reward", *config.reward.terms)
    for item, drawn in zip(chosen, answers, strict=True):
        question_id = item.question["question_id"]
        come = {number: sampled(a) for number, a in drawn.items() if a.status in SAMPLED}
        samples = [
            make_sample(item, text, finish, entities.get(question_id, ()))
            for text, finish in come.values()
        ]
        values: dict[int, list[tuple[str, float | None, str]]] = {
            number: [(measure, None, f"failed:{answer.status}") for measure in measures]
            for number, answer in drawn.items()
        }
        for number, sample, reward in zip(
            come, samples, score_group(config.reward, samples), strict=True
        ):
            status = row_status(sample_response(sample).status)
            values[number] = [
                (measure, value, status if value is not None else f"failed:{measure}")
                for measure, value in (("reward", reward.value), *reward.raw.items())
            ]
        for number, measured in values.items():
            for measure, value, status in measured:
                text = come[number][0] if measure == "reward" and number in come else None
                rows.append(
                    {
                        **slices[question_id],
                        "question_id": question_id,
                        "system": system,
                        "measure": measure,
                        "sample": number,
                        "value": value,
                        "status": status,
                        "text": text,
                    }
                )
    return rows


def reward_model_rows(
    config: Config,
    context: StageContext,
    tokenizer: Any,
    chosen: Sequence[Item],
    candidates: Mapping[str, Sequence[Mapping[str, Any]]],
    slices: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Score all candidates of the split once; then pairs and best-of-N."""
    runtime = context.params.runtime
    model = load_reward_model(context.model("reward_model"), device(runtime))
    drawn = [(item, row) for item in chosen for row in candidates[item.question["question_id"]]]
    say(f"reward model: scoring {len(drawn)} candidates")
    values = score(
        model,
        tokenizer,
        [sequence(tokenizer, item.prompt.text, row["text"]) for item, row in drawn],
        scoring_batch(runtime),
    )
    scores = {row["candidate_id"]: value for (_, row), value in zip(drawn, values, strict=True)}
    preferences = list(context.dataset("preferences").rows("split = ?", parameters=[config.split]))
    outcomes = {
        row["candidate_id"]: row["value"]
        for row in context.dataset("judgments").rows(
            "split = ? AND judge = 'outcome'", parameters=[config.split]
        )
        if row["value"] is not None
    }
    present = {q: candidates[q] for q in slices}
    return pair_rows(preferences, scores, slices) + best_of_n_rows(
        present, outcomes, scores, config.best_of, slices
    )
