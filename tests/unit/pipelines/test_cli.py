"""The command `longline`: output for people and programs, and errors in words."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipelines.cli import main
from schemas.ids import content_id
from stages.runtime.layout import STAGES
from tests.unit.stages.harness import put

HEAVY = ("torch", "transformers", "pandas", "duckdb", "hydra", "great_expectations", "dvc",
         "prefect", "vllm", "trl", "numpy", "pyarrow", "pydantic", "matplotlib")  # fmt: skip


def longline(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="session")
def rubrics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one dataset of 60 good rows and one quarantined."""
    folder = tmp_path_factory.mktemp("rubrics")
    put(folder, "rubrics", (
        {
            "question_id": content_id(i), "position": i, "kind": "entity", "criterion": "[b]é, \"x",
            "target": "" if i == 60 else "Paris", "weight": 1.0, "evidence_chunk_ids": ["a", "b"],
        }
        for i in range(61)
    ))  # fmt: skip
    return folder


@pytest.fixture
def data(workspace: Path, rubrics: Path) -> Path:
    shutil.copytree(rubrics / "data", workspace / "data")
    return workspace


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["sql", "--help"]])
def test_starting_up_imports_nothing_heavy(arguments: list[str]) -> None:
    script = f"""
import sys
from pipelines.cli import main
try:
    main({arguments})
finally:
    print([module for module in {HEAVY} if module in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.endswith("\n[]\n")


def test_every_command_has_help() -> None:
    names = [*main.commands, "params compose", "params show"]
    for name in names:
        assert "Usage: " in longline(*name.split(), "--help").output


@pytest.mark.usefixtures("data")
class TestSql:
    def test_table(self) -> None:
        result = longline("sql", "select count(*) as n, min(criterion) as c from rubrics")
        assert "60" in result.stdout
        assert '[b]é, "x' in result.stdout  # square brackets are text, not markup
        assert "1 rows" in result.stderr

    def test_table_says_that_there_is_more(self) -> None:
        result = longline("sql", "select position from rubrics order by position", "--limit", "7")
        assert "7 rows, and more" in result.stderr
        assert " 6 " in result.stdout
        assert " 7 " not in result.stdout
        assert "60 rows\n" in longline("sql", "from rubrics", "--limit", "60").stderr

    def test_csv(self) -> None:
        query = "select question_id, criterion, null as nothing from rubrics order by position"
        rows = list(csv.reader(io.StringIO(longline("sql", query, "--format", "csv").stdout)))
        assert rows[0] == ["question_id", "criterion", "nothing"]
        assert rows[1:] == [[content_id(i), '[b]é, "x', ""] for i in range(60)]

    def test_json_lines(self) -> None:
        query = "select position, evidence_chunk_ids as ids, map {'a': 1.5} as m, 'nan'::double x, "
        query += "date '2024-01-02' as d from rubrics order by position"
        lines = longline("sql", query, "--format", "json").stdout.splitlines()
        rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
        assert [row["position"] for row in rows] == list(range(60))
        assert rows[0] == {"position": 0, "ids": ["a", "b"], "m": {"a": 1.5}, "x": None,
                           "d": "2024-01-02"}  # fmt: skip

    def test_sums_are_numbers_in_json(self) -> None:
        query = "select sum(position) as n, sum(weight) as w, 1.25 as d from rubrics"
        row = json.loads(longline("sql", query, "--format", "json").stdout)
        assert row == {"n": 1770, "w": 60.0, "d": 1.25}

    def test_columns_of_one_name_are_all_there(self) -> None:
        query = "select 1 as a, 2 as a, 3 as a_1"
        assert longline("sql", query, "--format", "csv").stdout == "a,a,a_1\n1,2,3\n"
        row = json.loads(longline("sql", query, "--format", "json").stdout)
        assert row == {"a": 1, "a_1": 2, "a_1_1": 3}

    def test_quarantine(self) -> None:
        query = "select rule, reason from rubrics_quarantine"
        rows = longline("sql", query, "--format", "json").stdout
        assert json.loads(rows) == {"rule": "target_not_empty", "reason": "the target is empty"}

    @pytest.mark.parametrize("query", ["select * from rubric", "selec", "select x from rubrics"])
    def test_a_wrong_query_lists_the_views(self, query: str) -> None:
        result = longline("sql", query, status=1)
        assert result.stderr.startswith("error: ")
        assert "allowed: rubrics, rubrics_quarantine" in result.stderr
        assert result.stdout == ""

    def test_an_error_while_rows_are_read(self) -> None:
        result = longline("sql", "select cast(target as int) from rubrics", status=1)
        assert "allowed: rubrics, rubrics_quarantine" in result.stderr

    def test_a_statement_without_rows(self) -> None:
        assert "no rows" in longline("sql", "; -- nothing").stderr
        assert "0 rows" in longline("sql", "create table t (a int)").stderr

    def test_a_limit_of_nothing_is_refused(self) -> None:
        longline("sql", "from rubrics", "--limit", "0", status=2)


def test_sql_in_a_real_process(data: Path) -> None:
    command = [sys.executable, "-m", "pipelines.cli", "sql", "--format", "csv"]
    done = subprocess.run([*command, "select count(*) as n from rubrics"],
                          cwd=data, capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n60\n", "")
    wrong = subprocess.run([*command, "from nowhere"], cwd=data, capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "allowed: rubrics, rubrics_quarantine" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_without_data(workspace: Path) -> None:
    for command in (["sql", "select 1"], ["catalog"]):
        result = longline(*command, status=1)
        assert result.stderr.startswith("error: no dataset in ")
        assert result.stderr.endswith("data/\n  fix: dvc repro\n")
    assert not (workspace / "longline.duckdb").exists()


def test_debug_shows_the_traceback(workspace: Path) -> None:
    result = CliRunner().invoke(main, ["--debug", "sql", "select 1"])
    assert result.exit_code == 1
    assert type(result.exception).__name__ == "UserError"


def test_catalog(data: Path) -> None:
    import duckdb

    assert "2 views" in longline("catalog").output
    with duckdb.connect(str(data / "longline.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM rubrics").fetchall() == [(60,)]


def test_params_compose(workspace: Path) -> None:
    assert "was up to date" in longline("params", "compose").output
    assert "(profile tiny)" in longline("params", "compose", "--check").output
    result = longline("params", "compose", "profile=smoke", "seed.data=1")
    assert "dvc exp run -S profile=smoke -S seed.data=1" in result.output
    assert "profile: smoke\n" in (workspace / "params.yaml").read_text()
    stale = longline("params", "compose", "--check", status=1)
    assert "fix: longline params compose" in stale.stderr
    longline("params", "compose", "--check", "profile=smoke", status=2)
    wrong = longline("params", "compose", "distractors=x", status=1)
    assert "tiered" in wrong.stderr


def test_params_compose_finds_a_variant_beside_dvc_yaml(workspace: Path) -> None:
    """The command's own folder stands first on the path, not the current one."""
    (workspace / "beside").mkdir()
    (workspace / "beside" / "near.py").write_text(
        "from stages.runtime.variant import StageConfig\n"
        "class Config(StageConfig): ...\n"
        "def run(config, context): ...\n"
    )
    (workspace / "conf" / "rubrics" / "near.yaml").write_text("kind: beside.near\n")
    command = [str(Path(sys.executable).parent / "longline"), "params", "compose", "rubrics=near"]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "kind: beside.near" in (workspace / "params.yaml").read_text()


def test_params_show_and_variants(workspace: Path) -> None:
    shown = longline("params", "show").output
    assert "distractors: random, tiered\n" in shown
    assert "policy/reward: " in shown
    listed = longline("variants").output.splitlines()
    assert [line.split(":")[0] for line in listed[:-1]] == list(STAGES)
    assert "distractors: random, tiered\n" in longline("variants", "distractors").output
    assert "allowed: candidates, " in longline("variants", "nonsense", status=1).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_LONGLINE_COMPLETE" in longline("completion", shell).output


def test_completion_of_stage_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.shell_completion import ShellComplete

    complete: Any = ShellComplete(main, {}, "longline", "_LONGLINE_COMPLETE")
    found = [item.value for item in complete.get_completions(["variants"], "")]
    assert found == list(STAGES)
