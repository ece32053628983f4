"""The pipeline under DVC: skipping, experiments, metrics, drift, and readable failures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pipelines.report.facts import Workspace
from pipelines.report.integrity import checks
from stages.runtime.layout import STAGES, dataset_path, metrics_path, model_path, plot_path
from tests.repository import Repository


def stages_run(output: str) -> set[str]:
    return set(re.findall(r"Running stage '(\w+)'", output))


def queried(repository: Repository, query: str) -> float:
    """The one number that `longline sql` finds."""
    done = repository.run(sys.executable, "-m", "pipelines.cli", "sql", "--format", "json", query)
    return float(next(iter(json.loads(done.stdout).values())))


def test_every_output_is_there(finished: Repository) -> None:
    for stage in STAGES.values():
        for path in (
            *map(dataset_path, stage.writes),
            *map(model_path, stage.writes_models),
            *map(plot_path, stage.plots),
            metrics_path(stage.name),
        ):
            assert (finished.path / path).exists(), path
    assert not list((finished.path / ".work").glob("*"))


def test_a_second_repro_does_nothing(finished: Repository) -> None:
    done = finished.run("dvc", "repro")
    assert stages_run(done.stdout) == set()
    assert "up to date" in done.stdout
    assert finished.run("git", "status", "--short").stdout == ""


def test_an_experiment_runs_what_depends_on_the_change(copy_of_finished: Repository) -> None:
    before = (copy_of_finished.path / "data/judgments/_meta.json").read_bytes()
    # Which margins there are depends on the processor; this one takes pairs out of training.
    least = "select min(margin) from preferences"
    bound = queried(copy_of_finished, f"{least} where split = 'train'") + 0.01
    done = copy_of_finished.run(
        "dvc", "exp", "run", "-n", "wide", "-S", f"preferences.min_margin={bound}"
    )
    assert stages_run(done.stdout) == {"preferences", "reward_model", "policy", "evaluate"}
    assert (copy_of_finished.path / "data/judgments/_meta.json").read_bytes() == before
    assert queried(copy_of_finished, least) >= bound
    shown = json.loads(copy_of_finished.run("dvc", "exp", "show", "--json").stdout)
    assert "wide" in json.dumps(shown)


def test_the_runtime_changes_no_result(copy_of_finished: Repository) -> None:
    changes = ("runtime.threads=1", "runtime.gpus=2", "runtime.timeout=60", "runtime.micro_batch=2")
    words = [word for change in changes for word in ("-S", change)]
    assert stages_run(copy_of_finished.run("dvc", "exp", "run", *words).stdout) == set()


def test_metrics_and_plots(copy_of_finished: Repository) -> None:
    metrics = json.loads(copy_of_finished.run("dvc", "metrics", "show", "--json").stdout)
    files = metrics[""]["data"]
    assert set(files) == {str(metrics_path(stage)) for stage in STAGES}
    assert {"policy_reward", "reward_gain", "reward_gain_low", "pair_accuracy"} <= set(
        files["reports/evaluate.json"]["data"]
    )
    copy_of_finished.run("dvc", "plots", "show")
    page = (copy_of_finished.path / "dvc_plots" / "index.html").read_text(encoding="utf-8")
    for title in ("Warm-up loss", "Policy reward in training", "Test reward by slice"):
        assert title in page


def test_a_changed_conf_stops_with_the_fix(copy_of_finished: Repository) -> None:
    file = copy_of_finished.path / "conf" / "preferences" / "margin.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("min_margin: 0.1", "min_margin: 0.2"), encoding="utf-8")
    stale = copy_of_finished.run("dvc", "repro", check=False)
    assert stale.returncode != 0
    assert "conf/ has changed" in stale.stderr
    assert "longline params compose" in stale.stderr
    assert stages_run(stale.stdout) == {"params"}
    copy_of_finished.run(sys.executable, "-m", "pipelines.cli", "params", "compose")
    mended = copy_of_finished.run("dvc", "repro", "params", "preferences")
    assert stages_run(mended.stdout) == {"params", "preferences"}


def test_an_unknown_key_names_the_allowed_ones(copy_of_finished: Repository) -> None:
    params = copy_of_finished.path / "params.yaml"
    params.write_text(
        params.read_text(encoding="utf-8").replace("  top_k:", "  top_kk:"), encoding="utf-8"
    )
    done = copy_of_finished.run("dvc", "repro", "--single-item", "distractors", check=False)
    assert done.returncode != 0
    assert "unknown parameter 'distractors.top_kk'" in done.stderr
    assert "budgets" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_shard_is_found_before_it_is_used(copy_of_finished: Repository) -> None:
    shard = copy_of_finished.path / "data/questions/part-00000.parquet"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.unlink()  # DVC may have linked it to its cache
    shard.write_bytes(data)
    done = copy_of_finished.run(sys.executable, "-m", "stages", "rubrics", check=False)
    assert done.returncode == 1
    assert "data/questions/part-00000.parquet" in done.stderr
    assert "dvc checkout data/questions" in done.stderr
    assert "Traceback" not in done.stderr
    copy_of_finished.run("rm", "-r", "data/questions")
    copy_of_finished.run("dvc", "checkout", "data/questions")
    copy_of_finished.run(sys.executable, "-m", "stages", "rubrics")


def test_gold_larger_than_every_budget(copy_of_finished: Repository) -> None:
    done = copy_of_finished.run("dvc", "exp", "run", "-S", "distractors.budgets=[8]", check=False)
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert "do not fit the largest budget of 8 tokens" in text
    assert "Traceback" not in done.stderr
    assert not list((copy_of_finished.path / ".work").glob("distractors-*"))


def test_no_answer_leaks(finished: Repository) -> None:
    """No held-out gold document in a training context, no held-out question in training."""
    gold = "select unnest(gold_doc_ids) as doc_id, split from questions"
    assert queried(
        finished,
        f"select count(*) from ({gold}) a join ({gold}) b using (doc_id) where a.split <> b.split"
    ) == 0  # fmt: skip
    assert queried(
        finished,
        "select count(*) from (select split, unnest(documents).doc_id as doc_id from contexts) c "
        f"join ({gold}) g using (doc_id) where c.split = 'train' and g.split <> 'train'"
    ) == 0  # fmt: skip
    assert queried(
        finished,
        "select count(*) from rollouts join questions using (question_id) where split <> 'train'"
    ) == 0  # fmt: skip
    assert queried(finished, "select count(*) from evaluations where split <> 'test'") == 0
    assert queried(finished, "select count(*) from contexts where split = 'train'") > 0


def test_report_from_the_command_line(copy_of_finished: Repository) -> None:
    done = copy_of_finished.run(sys.executable, "-m", "pipelines.cli", "report")
    assert "reports/index.html" in done.stdout
    page = (copy_of_finished.path / "reports/index.html").read_text(encoding="utf-8")
    for stage in STAGES:
        assert stage in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//[^"]+\.(?:js|css|woff2?)', page)
    assert list((copy_of_finished.path / "reports/data_docs").glob("*.html"))
    verdicts = {
        check.name: check.verdict for check in checks(Workspace.open(copy_of_finished.path))
    }
    assert set(verdicts.values()) == {"pass"}, verdicts


def test_row_accounting_holds_everywhere(finished: Repository) -> None:
    for stage in STAGES.values():
        for name in stage.writes:
            meta = json.loads((finished.path / dataset_path(name) / "_meta.json").read_text())
            account = meta["accounting"]
            lost = sum(account["quarantined"].values()) + sum(account["dropped"].values())
            assert account["in"] == account["out"] + lost, name
            assert sum(shard["rows"] for shard in meta["shards"]) == account["out"]


def test_the_run_log_is_outside_git_and_dvc(finished: Repository) -> None:
    log = finished.path / ".longline" / "runs.jsonl"
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert {entry["stage"] for entry in entries} == set(STAGES)
    assert all(entry["status"] == "ok" and entry["seconds"] > 0 for entry in entries)
    tracked = finished.run("git", "ls-files").stdout
    assert ".longline" not in tracked
    lock = (finished.path / "dvc.lock").read_text(encoding="utf-8")
    assert "runs.jsonl" not in lock
    assert not Path(finished.path / ".longline" / "runs.jsonl.lock").exists()


def test_after_a_failed_stage_the_old_data_can_be_checked_out(
    copy_of_finished: Repository,
) -> None:
    """DVC removes a stage's outputs before it runs; its cache has them."""
    repository = copy_of_finished
    folders = [repository.path / "data" / name for name in ("contexts", "traces")]
    before = {file: file.read_bytes() for folder in folders for file in folder.glob("*.*")}
    done = repository.run("dvc", "exp", "run", "-S", "size.budgets=[8]", check=False)
    assert done.returncode != 0
    assert "do not fit the largest budget of 8 tokens" in done.stderr
    repository.run("dvc", "checkout")
    assert before
    assert {file: file.read_bytes() for file in before} == before


def test_no_such_input_is_told_before_dvc_gives_up(copy_of_finished: Repository) -> None:
    done = copy_of_finished.run(
        "dvc", "exp", "run", "-S", "corpus=files", "-S", "corpus.path=nowhere", check=False
    )
    assert done.returncode != 0
    assert "corpus.path: no file or folder 'nowhere'\n  fix: mkdir -p nowhere and" in done.stderr
