"""The one door to Great Expectations: judge a slim frame of flags and numbers, render Data Docs.

The frame holds one boolean column per rule and the profile numbers, never the long text: the
pandas engine would hash and copy it. Results are plain dictionaries without times or run ids, so
that a re-run of the same data stores the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.contract import Contract, Rule

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RuleResult:
    """How often one rule was broken, and whether that is within its tolerance."""

    rule: Rule
    checked: int
    broken: int
    passed: bool


def judge(
    contract: Contract, frame: pd.DataFrame, rules: Sequence[Rule], bound: float
) -> tuple[list[RuleResult], dict[str, Any]]:
    """Validate the flag columns of `frame` (named as the rules) and its profile columns.

    A quarantine rule tolerates a share of `bound` broken rows, a warn rule any share, a fail rule
    none. Returns the results in the order of `rules`, and the validation result for Data Docs.
    """
    _quiet()
    import great_expectations as gx
    import great_expectations.expectations as gxe

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    batch = (
        context.data_sources.add_pandas("longline")
        .add_dataframe_asset(contract.name)
        .add_batch_definition_whole_dataframe("all")
        .get_batch({"dataframe": frame})
    )
    suite = gx.ExpectationSuite(contract.name)
    tolerance = {"fail": 1.0, "quarantine": 1.0 - bound, "warn": 0.0}
    for rule in rules:
        suite.add_expectation(
            gxe.ExpectColumnValuesToBeInSet(
                column=rule.name,
                value_set=[True],
                mostly=tolerance[rule.severity],
                notes=f"{rule.severity}: {rule.reason}",
            )
        )
    for column in contract.profile:
        if column in frame:
            suite.add_expectation(
                gxe.ExpectColumnMeanToBeBetween(column=column, min_value=None, max_value=None)
            )
    result = batch.validate(suite, result_format="BASIC").to_json_dict()
    by_column = {
        entry["expectation_config"]["kwargs"]["column"]: entry for entry in result["results"]
    }
    results = []
    for rule in rules:
        entry = by_column[rule.name]
        if entry["exception_info"].get("raised_exception"):
            raise RuntimeError(
                f"{contract.name}.{rule.name}: {entry['exception_info']['exception_message']}"
            )
        # Great Expectations leaves nulls out of its count; a null flag is an unmet rule.
        broken = int(entry["result"].get("unexpected_count") or 0)
        broken += int(entry["result"].get("missing_count") or 0)
        results.append(RuleResult(rule, len(frame), broken, bool(entry["success"])))
    return results, _stable(result)


def render_data_docs(validation: dict[str, Any]) -> str:
    """One validation result as a Data Docs page (HTML)."""
    _quiet()
    from great_expectations.core.expectation_validation_result import (
        expectationSuiteValidationResultSchema,
    )
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    result = expectationSuiteValidationResultSchema.load(validation)
    document = ValidationResultsPageRenderer(run_info_at_end=False).render(result)
    return str(DefaultJinjaPageView().render(document))


def preload() -> None:
    """Import Great Expectations; a stage calls this in a thread beside its work."""
    _quiet()
    import great_expectations  # noqa: F401


def _quiet() -> None:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"


def _stable(result: dict[str, Any]) -> dict[str, Any]:
    """The result without what changes from run to run (load time, batch ids)."""
    stable = {key: value for key, value in result.items() if key not in ("meta", "id")}
    stable["meta"] = {
        "great_expectations_version": result["meta"]["great_expectations_version"],
        "active_batch_definition": result["meta"]["active_batch_definition"],
    }
    return stable
