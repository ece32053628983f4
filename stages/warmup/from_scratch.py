"""A small language model made here and taught to read by TRL's SFTTrainer, in minutes on a CPU.

LFM2 (short convolutions and attention): a convolution of a few tokens gathers the two keys of a
fact, entity and relation, where attention can find them. Three lessons follow one another (see
_curriculum.py); the last one is the usual warm-up on training questions. It is short, and `slips`
makes its teacher imperfect, so that reinforcement learning has something left to improve. Only
training questions are shown; counterfactual worlds never state a fact of the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from schemas.errors import UserError
from stages.llm.library import Item, items, load_documents
from stages.llm.prompts import load_template
from stages.llm.tokenizer import load_tokenizer
from stages.llm.training import Optimisation, progress_callback, save, train, trainer_arguments
from stages.llm.wording import load_wording
from stages.runtime.context import StageContext
from stages.runtime.progress import say
from stages.runtime.seeds import deterministic
from stages.runtime.variant import Settings, StageConfig, Weights
from stages.warmup._curriculum import (
    Segments,
    demonstration_sequences,
    lookup_sequences,
    world_sequences,
)
from stages.warmup._worlds import read_vocabulary


class Architecture(Settings):
    """LFM2's shape."""

    hidden: int = Field(ge=8)
    feed_forward: int = Field(ge=8)
    layers: tuple[Literal["conv", "full_attention"], ...] = Field(min_length=1)
    heads: int = Field(ge=1)
    convolution: int = Field(ge=2, description="Tokens that a convolution sees")
    initial_std: float = Field(gt=0)

    @model_validator(mode="after")
    def _divides(self) -> Architecture:
        if self.hidden % self.heads:
            raise ValueError(f"hidden ({self.hidden}) must be a multiple of heads ({self.heads})")
        return self


class Lookups(Settings):
    optimisation: Optimisation
    facts: tuple[PositiveInt, PositiveInt] = Field(
        description="Facts of the first and of the last world"
    )
    restated: int = Field(ge=1)


class Worlds(Settings):
    optimisation: Optimisation
    facts: tuple[PositiveInt, PositiveInt] = Field(description="Fewest and most facts of a world")
    questions: int = Field(ge=1)

    @field_validator("facts")
    @classmethod
    def _in_order(cls, facts: tuple[int, int]) -> tuple[int, int]:
        if facts[0] > facts[1]:
            raise ValueError("the fewest facts must not be more than the most")
        return facts


class Demonstrations(Settings):
    optimisation: Optimisation
    slips: float = Field(ge=0, le=1, description="Share of demonstrations that go wrong at one hop")


class Config(StageConfig):
    kind: Literal["from_scratch"]
    model: Architecture
    lookups: Lookups
    worlds: Worlds
    demonstrations: Demonstrations
    hop_weights: Weights
    markers: int = Field(ge=1, description="Citation markers to train")
    wording: str
    view: Literal["long", "short"]
    prompt: str
    seed: int = Field(ge=0)


def run(config: Config, context: StageContext) -> dict[str, Any]:
    deterministic(config.seed, context.params.runtime)
    tokenizer = load_tokenizer(context.model("tokenizer"))
    if tokenizer.chat_template:
        raise UserError(
            "warmup=from_scratch writes plain prompts, but the tokenizer has a chat template",
            fix="use a word_level tokenizer (profile=tiny), or warmup=pass_through",
        )
    template, wording = load_template(config.prompt), load_wording(config.wording)
    model = build_model(config.model, tokenizer)
    end, seed = tokenizer.eos_token, config.seed
    texts = {row["doc_id"]: row["text"] for row in context.read("documents")}
    vocabulary = read_vocabulary(context.read("triples"), texts)
    chosen = list(items(context, template, tokenizer, view=config.view, splits=["train"]))
    first, second, third = config.lookups, config.worlds, config.demonstrations
    lessons: list[tuple[str, Optimisation, Iterable[Segments]]] = [
        (
            "lookups",
            first.optimisation,
            lookup_sequences(
                vocabulary, _sequences(first.optimisation), first.facts, first.restated,
                config.markers, seed,
            ),
        ),
        (
            "worlds",
            second.optimisation,
            world_sequences(
                vocabulary, template, wording, _sequences(second.optimisation), second.facts,
                second.questions, config.hop_weights, config.markers, end, seed,
            ),
        ),
        (
            "demonstrations",
            third.optimisation,
            demonstration_sequences(
                chosen, chunk_texts(context, chosen), _sequences(third.optimisation), third.slips,
                end, seed,
            ),
        ),
    ]  # fmt: skip
    history: list[dict[str, Any]] = []
    losses = {}
    for lesson, optimisation, segments in lessons:
        curve = teach(context, model, tokenizer, lesson, optimisation, segments, seed)
        done = history[-1]["step"] if history else 0
        history += [
            {"step": done + row["step"], "lesson": lesson, "loss": row["loss"],
             "token_accuracy": row.get("mean_token_accuracy")}
            for row in curve if "loss" in row
        ]  # fmt: skip
        losses[f"loss_{lesson}"] = round(history[-1]["loss"], 4)
    save(model, tokenizer, context.model_folder("warmup"))
    context.plot("warmup", history)
    return {
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "vocabulary": len(tokenizer),
        "training_questions": len(chosen),
        **losses,
    }


def build_model(shape: Architecture, tokenizer: Any) -> Any:
    """An LFM2 model with random weights from torch's seeded generator."""
    from transformers import Lfm2Config, Lfm2ForCausalLM

    return Lfm2ForCausalLM(
        Lfm2Config(
            vocab_size=len(tokenizer),
            hidden_size=shape.hidden,
            intermediate_size=shape.feed_forward,
            num_hidden_layers=len(shape.layers),
            layer_types=list(shape.layers),
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            conv_L_cache=shape.convolution,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            block_auto_adjust_ff_dim=False,
            initializer_range=shape.initial_std,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def tokenise(tokenizer: Any, sequences: Iterable[Segments]) -> list[dict[str, list[int]]]:
    """Token ids and loss mask of each sequence. `UserError` names words that are not known.

    A word outside a closed vocabulary could be neither read nor written.
    """
    pieces = [(i, text, trained) for i, seq in enumerate(sequences) for text, trained in seq]
    encoded = tokenizer([text for _, text, _ in pieces], add_special_tokens=False)["input_ids"]
    rows: list[dict[str, list[int]]] = []
    for (index, text, trained), ids in zip(pieces, encoded, strict=True):
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
            raise UserError(
                f"the tokenizer does not know every word of: {text[:200]!r}",
                fix="add the words to size.tokenizer.words, or raise size.tokenizer.max_words; for "
                "a citation such as [40], raise size.tokenizer.markers",
            )
        if index == len(rows):
            rows.append({"input_ids": [], "completion_mask": []})
        rows[index]["input_ids"] += ids
        rows[index]["completion_mask"] += [int(trained)] * len(ids)
    return rows


def teach(
    context: StageContext,
    model: Any,
    tokenizer: Any,
    lesson: str,
    optimisation: Optimisation,
    sequences: Iterable[Segments],
    seed: int,
) -> list[dict[str, float]]:
    """One lesson: train the model in place on the sequences in their order; returns its curve."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows = tokenise(tokenizer, sequences)
    say(f"{lesson}: {len(rows)} sequences")
    progress = progress_callback(lesson, every=50)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            **trainer_arguments(context, optimisation, seed),
            adam_beta2=0.95,
            max_length=None,
            packing=False,
            completion_only_loss=True,
            shuffle_dataset=False,
            train_sampling_strategy="sequential",
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[progress],
    )
    train(trainer)
    history: list[dict[str, float]] = progress.history
    return history


def chunk_texts(context: StageContext, chosen: list[Item]) -> dict[str, dict[str, str]]:
    """The text of every chunk in each item's prompt, by question id."""
    ids = [entry["doc_id"] for item in chosen for entry in item.context["documents"]]
    library = load_documents(context.dataset("documents"), context.dataset("chunks"), ids)
    return {
        item.question["question_id"]: {
            chunk.chunk_id: library[entry["doc_id"]].chunk_text(chunk)
            for entry in item.context["documents"]
            for chunk in library[entry["doc_id"]].chunks
        }
        for item in chosen
    }


def _sequences(optimisation: Optimisation) -> int:
    return optimisation.steps * optimisation.batch
