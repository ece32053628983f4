"""Parameters: what is wrong, where, what is allowed; and variants of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import Field

from schemas.errors import UserError
from stages.runtime.layout import STAGES
from stages.runtime.variant import Settings, StageConfig, checked, load_variant, validate, variants


@pytest.fixture
def stages(composed: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(composed)
    return values


def refused(stage: str, values: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        validate(stage, values)
    return caught.value


@pytest.mark.parametrize("stage", STAGES)
def test_what_conf_composes_to_is_valid(stage: str, stages: dict[str, Any]) -> None:
    assert validate(stage, stages[stage]).kind == stages[stage]["kind"]


@pytest.mark.parametrize("stage", STAGES)
def test_every_variant_of_ours_is_one(stage: str) -> None:
    assert variants(stage)
    for kind in variants(stage):
        config = load_variant(stage, kind).Config
        assert issubclass(config, StageConfig)
        assert config.model_fields["kind"].annotation == Literal[kind]  # type: ignore[valid-type]


@pytest.mark.parametrize("stage", STAGES)
def test_an_unknown_key_names_the_allowed_ones(stage: str, stages: dict[str, Any]) -> None:
    error = refused(stage, {**stages[stage], "knd": 1})
    assert error.message == f"unknown parameter '{stage}.knd'"
    assert error.allowed == sorted(type(validate(stage, stages[stage])).model_fields)
    assert "longline params compose" in (error.fix or "")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("candidates.sampling.temprature", ["max_new_tokens", "temperature", "top_p"]),
        ("candidates.questions.trian", ["test", "train", "validation"]),
        # Members of a union: by the kind that was given, and without pydantic's tag in the path.
        ("corpus.tokenizer.max_word", ["kind", "markers", "max_words", "words"]),
        ("judge.judges.citations.betta", ["beta", "duplicates", "kind"]),
        ("judge.judges.outcome.beta", ["kind"]),
        ("policy.reward.terms.rubric.bounds", ["boundary", "group", "kind", "max_over"]),
        ("policy.reward.combine.etta", ["eta", "kind", "outcome", "rubric"]),
        ("policy.reward.term", ["combine", "terms"]),
        ("evaluate.reward.combine.etta", ["eta", "kind", "outcome", "rubric"]),
    ],
)
def test_a_nested_unknown_key_is_named_as_the_user_wrote_it(
    stages: dict[str, Any], path: str, allowed: list[str]
) -> None:
    stage, *folders, key = path.split(".")
    values = stages[stage]
    for folder in folders:
        values = values[folder]
    values[key] = 1
    error = refused(stage, stages[stage])
    assert error.message == f"unknown parameter '{path}'"
    assert error.allowed == allowed


def test_a_mistyped_key_is_told_before_the_missing_one(stages: dict[str, Any]) -> None:
    values = stages["preferences"]
    values["min_margn"] = values.pop("min_margin")
    assert refused("preferences", values).message == "unknown parameter 'preferences.min_margn'"


def test_a_missing_key(stages: dict[str, Any]) -> None:
    del stages["candidates"]["sampling"]["top_p"]
    error = refused("candidates", stages["candidates"])
    assert error.message == "parameter 'candidates.sampling.top_p': Field required"


def test_a_wrong_type_shows_what_was_given(stages: dict[str, Any]) -> None:
    stages["candidates"]["samples"] = "many"
    error = refused("candidates", stages["candidates"])
    assert error.message.startswith("parameter 'candidates.samples': ")
    assert error.message.endswith("(given: 'many')")


def test_a_wrong_value_in_a_union_member(stages: dict[str, Any]) -> None:
    stages["judge"]["judges"]["citations"]["beta"] = -1
    error = refused("judge", stages["judge"])
    assert error.message.startswith("parameter 'judge.judges.citations.beta': ")


def test_an_unknown_member_of_a_union_lists_them(stages: dict[str, Any]) -> None:
    stages["judge"]["judges"]["outcome"]["kind"] = "outcom"
    error = refused("judge", stages["judge"])
    assert error.message == "parameter 'judge.judges.outcome.kind': there is no 'outcom'"
    assert error.allowed == [
        "citation", "entity_recall", "format", "outcome", "pairwise_lm", "rubric_lm", "yes_no"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("policy.loss_type", "nonsense", "'grpo'"),
        ("warmup.hop_weights", [0.0, 0.0], "one must be positive"),
        ("warmup.lookups.facts", [0, 0], "greater than 0"),
        ("warmup.worlds.facts", [9, 3], "the fewest facts must not be more"),
        ("preferences.weights", {"outcome": -1.0}, "must not be negative"),
    ],
)
def test_a_value_that_would_fail_in_the_middle_of_a_run(
    stages: dict[str, Any], path: str, value: Any, told: str
) -> None:
    stage, *folders, key = path.split(".")
    values = stages[stage]
    for folder in folders:
        values = values[folder]
    values[key] = value
    error = refused(stage, stages[stage])
    assert error.message.startswith(f"parameter '{path}")
    assert told in error.message


def test_values_that_disagree_are_not_listed_all(stages: dict[str, Any]) -> None:
    stages["policy"]["group"] = 7
    assert refused("policy", stages["policy"]).message == (
        "parameter 'policy': optimisation.batch (64) must be a multiple of group (7)"
    )


def test_not_a_number_is_no_value(stages: dict[str, Any]) -> None:
    stages["preferences"]["weights"] = {"outcome": float("nan")}
    error = refused("preferences", stages["preferences"])
    assert error.message.startswith("parameter 'preferences.weights.outcome': ")


class Inner(Settings):
    kind: Literal["inner"]
    width: int


class Other(Settings):
    kind: Literal["other"]
    height: int


class Outer(Settings):
    one: Inner | None = None
    many: list[Annotated[Inner | Other, Field(discriminator="kind")]] = Field(default=[])
    either: Inner | Other | None = None
    named: dict[str, dict[str, Inner]] = Field(default={})
    number: int | list[int] = 0


@pytest.mark.parametrize(
    ("values", "path", "allowed"),
    [
        ({"one": {"kind": "inner", "width": 1, "x": 1}}, "w.one.x", ["kind", "width"]),
        ({"many": [{"kind": "other", "height": 1, "x": 1}]}, "w.many.0.x", ["height", "kind"]),
        ({"either": 3}, "w.either", None),
        ({"named": {"a": {"b": {"kind": "inner", "width": 1, "x": 1}}}}, "w.named.a.b.x",
         ["kind", "width"]),
        ({"number": [1, "x"]}, "w.number", None),
    ],
)  # fmt: skip
def test_paths_through_every_kind_of_type(
    values: dict[str, Any], path: str, allowed: list[str] | None
) -> None:
    with pytest.raises(UserError) as caught:
        checked(Outer, values, "w")
    assert f"'{path}'" in caught.value.message
    if allowed is not None:
        assert caught.value.allowed == allowed


@pytest.mark.parametrize("values", [None, [], "tiered", {}, {"kind": 3}])
def test_no_kind(values: Any) -> None:
    error = refused("distractors", values)
    assert error.message == "params.yaml: 'distractors' has no kind"
    assert error.allowed == ["random", "tiered"]


@pytest.mark.parametrize("kind", ["tierd", "_assemble", "..tiered", "a b.c", ""])
def test_an_unknown_variant_names_the_variants(kind: str) -> None:
    error = refused("distractors", {"kind": kind})
    assert error.message == f"distractors.kind: no variant '{kind}'"
    assert error.allowed == ["random", "tiered"]
    assert "longline params compose distractors=" in (error.fix or "")


def test_an_unknown_stage_names_the_stages() -> None:
    with pytest.raises(UserError) as caught:
        load_variant("distractor", "tiered")
    assert caught.value.allowed == sorted(STAGES)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for modules; the current one, and not yet on the Python path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_a_module_beside_dvc_yaml_is_found(own: Path) -> None:
    (own / "own_found").mkdir()
    (own / "own_found" / "near.py").write_text(
        "from stages.runtime.variant import StageConfig\n"
        "class Config(StageConfig):\n    width: int\n"
        "def run(config, context): ...\n"
    )
    config = validate("distractors", {"kind": "own_found.near", "width": 2})
    assert config.model_dump() == {"kind": "own_found.near", "width": 2}
    assert refused("distractors", {"kind": "own_found.near", "width": 2, "x": 1}).allowed == [
        "kind", "width",
    ]  # fmt: skip


def test_a_module_that_is_not_there(own: Path) -> None:
    error = refused("distractors", {"kind": "own_missing.near"})
    assert error.message == "distractors.kind: no module 'own_missing.near' on the Python path"
    assert "beside dvc.yaml" in (error.fix or "")


@pytest.mark.parametrize(
    ("text", "lacks"), [("", "Config"), ("class Config: ...", "run"), ("run = print", "Config")]
)
def test_a_module_that_is_no_variant(own: Path, text: str, lacks: str) -> None:
    name = f"own_{lacks.lower()}_{len(text)}"
    (own / name).mkdir()
    (own / name / "bad.py").write_text(text)
    error = refused("distractors", {"kind": f"{name}.bad"})
    assert error.message == f"{name}.bad is not a variant: it has no `{lacks}`"


def test_a_missing_library_of_a_module_is_not_a_missing_module(own: Path) -> None:
    (own / "own_needs").mkdir()
    (own / "own_needs" / "near.py").write_text("import own\n")  # a prefix of the module's name
    with pytest.raises(ModuleNotFoundError, match="No module named 'own'"):
        validate("distractors", {"kind": "own_needs.near"})
