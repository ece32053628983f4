"""The rubric judge: one question a criterion, a declared scale, and no number for a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.judge._case import Criterion
from stages.judge._prompt import load_prompt
from stages.judge._rubric import NEEDS, RubricJudge, Scale, requests, verdicts
from stages.llm.answer import Answer
from tests.unit.stages.judge.cases import WRITING, case, prompt_of, replies

ASK = load_prompt("rubric", NEEDS).ask
RUBRIC = (Criterion("0", "It names France.", 0.25), Criterion("1", "It names Paris.", 0.75))


def judge(**values: Any) -> RubricJudge:
    scale = {"lowest": 1, "highest": 5, "levels": {1: "no", 5: "yes"}}
    given: dict[str, Any] = {"kind": "rubric_lm", "prompt": "rubric", "criteria": None}
    return RubricJudge.model_validate({**WRITING, **given, "scale": scale, **values})


def test_one_request_for_each_candidate_and_criterion() -> None:
    asked = requests(judge(), ASK, case("good", "{bad}", "cut", rubric=RUBRIC, ill_formed=[2]))
    assert len(asked) == len({request.id for request in asked}) == 4
    assert {request.group for request in asked} == {"docs"}
    texts = [prompt_of(request) for request in asked]
    assert all(text.startswith("Documents.\nQuestion: What?\n") for text in texts)
    # The criterion comes behind the answer, so that both criteria share all that is before it.
    assert texts[0].split("Criterion:")[0] == texts[1].split("Criterion:")[0]
    assert "It names France." in texts[0] and "It names Paris." in texts[1]
    assert "1: no\n5: yes" in " ".join(texts[0].split("  ")) and "{bad}" in texts[2]
    schema = json.loads(asked[0].schema or "")
    assert schema["properties"]["score"] == {"type": "integer", "enum": [1, 2, 3, 4, 5]}
    assert list(schema["properties"]) == ["explanation", "score"]


def test_the_value_is_the_weighted_mean_on_the_unit_scale() -> None:
    one = case("good", "cut", rubric=RUBRIC, ill_formed=[1])
    made = judge()
    answers = replies(
        requests(made, ASK, one),
        lambda r: {"explanation": " so ", "score": 5 if "France" in prompt_of(r) else 3},
    )
    good, cut = verdicts(made, one, answers)
    assert (good.value, good.status) == (0.25 * 1.0 + 0.75 * 0.5, "ok")
    assert [(p.name, p.value, p.reason) for p in good.parts] == [("0", 1.0, "so"), ("1", 0.5, "so")]
    assert (good.n_prompt_tokens, good.n_tokens) == (20, 4)
    assert (cut.value, cut.status, cut.parts) == (0.0, "ill_formed:truncated", ())


@pytest.mark.parametrize("status", ["timeout", "broken_json", "schema_mismatch", "too_long"])
def test_a_failed_request_fails_the_verdict_and_the_rest_is_kept(status: Any) -> None:
    one = case("good", "other", rubric=RUBRIC)
    made = judge()

    def reply(request: Any) -> Any:
        text = prompt_of(request)
        if "good" in text and "Paris" in text:
            return Answer(status, detail="why")
        return {"explanation": "", "score": 5}

    first, second = verdicts(made, one, replies(requests(made, ASK, one), reply))
    assert (first.value, first.status) == (None, f"failed:{status}")
    assert [(p.value, p.status, p.reason) for p in first.parts] == [
        (1.0, "ok", ""),
        (None, f"failed:{status}", "why"),
    ]
    assert second.value == 1.0


def test_criteria_of_the_config_and_none_at_all() -> None:
    own = judge(criteria={"clear": "It is clear.", "short": "It is short."})
    asked = requests(own, ASK, case("good"))
    assert [prompt_of(r).split("Criterion: ")[1].split("\n")[0] for r in asked] == [
        "It is clear.", "It is short.",
    ]  # fmt: skip
    assert [p.name for p in verdicts(own, case("good"), replies(
        asked, lambda _: {"explanation": "", "score": 1}
    ))[0].parts] == ["clear", "short"]  # fmt: skip
    one = case("good", "cut", ill_formed=[1])
    assert requests(judge(), ASK, one) == []
    assert {v.status for v in verdicts(judge(), one, {})} == {"failed:no_reference"}


@given(st.integers(-50, 50), st.integers(1, 100), st.data())
def test_a_scale_maps_its_ends_to_0_and_1_and_keeps_the_order(
    lowest: int, steps: int, data: st.DataObject
) -> None:
    scale = Scale(lowest=lowest, highest=lowest + steps, levels={})
    assert (scale.unit(lowest), scale.unit(lowest + steps)) == (0.0, 1.0)
    a, b = (data.draw(st.integers(lowest, lowest + steps)) for _ in range(2))
    assert (scale.unit(a) < scale.unit(b)) == (a < b)
    assert 0.0 <= scale.unit(a) <= 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scale": {"lowest": 5, "highest": 1, "levels": {}}}, "from lowest up to highest"),
        ({"scale": {"lowest": 0, "highest": 101, "levels": {}}}, "at most 100 steps"),
        ({"scale": {"lowest": 1, "highest": 5, "levels": {0: "x"}}}, "level 0 is not on the scale"),
        ({"criteria": {}}, "criteria must name one, or be null"),
        ({"model": {}}, "either a folder or a name"),
    ],
)
def test_wrong_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        judge(**values)
