"""Composition: DVC's own bytes, every choice valid, and wrong overrides told in words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.params import check_params, compose_params, compose_text, groups, write_params
from schemas.errors import UserError
from stages.runtime.digest import conf_digest, parameter_files
from stages.runtime.layout import STAGES
from tests.conftest import ROOT

OVERRIDES: list[list[str]] = [
    [],
    ["distractors=random"],
    ["profile=smoke", "runtime.threads=1"],
    ["policy/reward=outcome", "seed.train=3", "prompt=path"],
    ["judge=yes_no", "size.judge_model.revision='7'"],
    ["corpus=musique", "synthesize=import_qa", "corpus.triples=null", "+synthesize.splits.x=1e-3"],
    ["judge.judges.outcome.kind='it is: #1'"],
]
# A choice that makes sense beside other choices only.
BESIDE = {"synthesize=import_qa": ["corpus=musique"]}
CHOICES = [f"{group}={choice}" for group, found in groups(ROOT / "conf").items()
           for choice in found]  # fmt: skip
BY_DVC = """
import json, sys
from dvc.utils.hydra import compose_and_dump
for index, overrides in enumerate(json.loads(sys.argv[1])):
    compose_and_dump(f"{index}.yaml", sys.argv[2], None, "config", sys.argv[3], overrides)
"""


def test_the_bytes_are_those_of_dvc(workspace: Path) -> None:
    arguments = [json.dumps(OVERRIDES), str(workspace / "conf"), str(workspace / "pipelines/hydra")]
    subprocess.run([sys.executable, "-c", BY_DVC, *arguments], cwd=workspace, check=True)
    for index, overrides in enumerate(OVERRIDES):
        ours = compose_text(overrides).encode()
        assert ours == (workspace / f"{index}.yaml").read_bytes(), overrides


def test_every_group_is_covered() -> None:
    assert set(STAGES) < {choice.split("=")[0] for choice in CHOICES}
    assert {"profile=smoke", "recipe=longtracerl", "policy/reward=outcome"} < set(CHOICES)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_composes_and_is_valid(choice: str) -> None:
    params = compose_params([*BESIDE.get(choice, ()), choice], ROOT)
    group, name = choice.split("=")
    if group in STAGES:
        stage = params.stages[group]
        # A choice of judge is the panel, or the panel with a judge of that kind.
        judges = getattr(stage, "judges", {}).values()
        assert name in (stage.kind, *(judge.kind for judge in judges))
    if group in ("profile", "recipe"):
        assert params.raw[group] == name


@pytest.mark.parametrize(
    ("choice", "dimension"),
    [("rubric_lm", "rubric"), ("pairwise_lm", "better"), ("yes_no", "supported")],
)
def test_a_language_judge_counts_in_the_preferences(choice: str, dimension: str) -> None:
    """One line swaps it in: the panel stays, and its dimension gets a weight."""
    without, chosen = (
        yaml.safe_load(compose_text(words, ROOT)) for words in ([], [f"judge={choice}"])
    )
    assert chosen["judge"]["judges"].pop(dimension)["kind"] == choice
    assert chosen["preferences"]["weights"].pop(dimension) == 1.0
    assert chosen == without


def test_the_defaults_in_conf_are_the_first_thing_composed(composed: str) -> None:
    defaults = yaml.safe_load((ROOT / "conf/config.yaml").read_text())["defaults"]
    chosen = {key: value for entry in defaults if isinstance(entry, dict)
              for key, value in entry.items()}  # fmt: skip
    values = yaml.safe_load(composed)
    for stage in STAGES:
        assert values[stage]["kind"] == chosen[stage]


def test_the_committed_params_agree_with_conf() -> None:
    assert (ROOT / "params.yaml").read_text(encoding="utf-8") == compose_text(root=ROOT)


def test_writing_says_whether_anything_changed(workspace: Path) -> None:
    assert not write_params()
    assert write_params(["seed.data=5"])
    assert yaml.safe_load((workspace / "params.yaml").read_text())["corpus"]["seed"] == 5
    assert write_params()


def test_invalid_parameters_are_not_written(workspace: Path) -> None:
    before = (workspace / "params.yaml").read_bytes()
    with pytest.raises(UserError, match=r"candidates\.samples"):
        write_params(["candidates.samples=1"])
    assert (workspace / "params.yaml").read_bytes() == before


def test_check_finds_drift(workspace: Path) -> None:
    assert check_params().profile == "tiny"
    file = workspace / "params.yaml"
    text = file.read_text()
    for changed in (text.replace("samples: 8", "samples: 9"), text + "\n", None):
        file.unlink()
        if changed is not None:
            file.write_text(changed)
        with pytest.raises(UserError, match="is not what conf/ composes to") as caught:
            check_params()
        assert caught.value.fix == "longline params compose"
        file.write_text(text)
    with (workspace / "conf/recipe/longtracerl.yaml").open("a") as stream:
        stream.write("# a comment changes the digest\n")
    with pytest.raises(UserError, match="is not what conf/ composes to"):
        check_params()


def test_the_digest_is_of_the_folder_that_is_composed(workspace: Path) -> None:
    with (workspace / "conf/judge/panel.yaml").open("a") as stream:
        stream.write("# changed\n")
    here, there = (compose_params(root=root).conf_digest for root in (workspace, ROOT))
    assert (here, there) == (conf_digest(workspace / "conf"), conf_digest(ROOT / "conf"))
    assert here != there


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("distractors=nonsense", ["tiered", "random"]),
        ("distractrs=random", ["distractrs", "distractors"]),
        ("candidates.smples=3", ["no key 'candidates.smples'", "samples, sampling, seed"]),
        ("size.warmup.lookup.facts=[1,2]", ["'size.warmup.lookup'", "demonstrations, lookups"]),
        ("candidates.samples.x=1", ["candidates.samples.x"]),
        ("candidates.samples=${nowhere}", ["nowhere"]),
        ("=", ["="]),
        ("policy/reward=outcom", ["entity_rubric", "reward_model"]),
    ],
)
def test_a_nonsense_override(workspace: Path, override: str, told: list[str]) -> None:
    with pytest.raises(UserError, match="cannot compose conf/ with") as caught:
        compose_text([override])
    assert override in str(caught.value)
    for word in told:
        assert word in str(caught.value)
    assert "longline params show" in (caught.value.fix or "")
    compose_text()  # Hydra is left as it was


@pytest.mark.parametrize(
    ("override", "message", "fix"),
    [
        ("seed.train=0,1", "several values", "longline ablate -S seed.train=0,1"),
        ("seed.train", "no KEY=VALUE", "-S seed.train=VALUE"),
        ("profile=smok", "there is no 'profile/smok'", "-S profile=CHOICE"),
    ],
)
def test_a_slip_is_told_without_hydras_own_words(
    workspace: Path, override: str, message: str, fix: str
) -> None:
    with pytest.raises(UserError) as caught:
        compose_text([override])
    assert message in caught.value.message and fix in (caught.value.fix or "")
    assert "hydra" not in str(caught.value).lower() and "multirun" not in str(caught.value)


def test_a_broken_file_in_conf(workspace: Path) -> None:
    (workspace / "conf/judge/panel.yaml").write_text("kind: [")
    with pytest.raises(UserError, match="cannot compose conf/") as caught:
        compose_text()
    assert "panel.yaml" in str(caught.value)


def test_no_conf(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no conf/config\.yaml in"):
        compose_text(root=tmp_path)


def test_groups_lists_every_choice() -> None:
    found = groups(ROOT / "conf")
    assert found["distractors"] == ["random", "tiered"]
    assert "outcome" in found["policy/reward"]
    assert sum(map(len, found.values())) == len(list(parameter_files(ROOT / "conf"))) - 1


def test_grids_and_deployments_are_no_groups(workspace: Path) -> None:
    before = groups()
    for folder in ("ablation", "deploy"):
        (workspace / "conf" / folder).mkdir(exist_ok=True)
        (workspace / "conf" / folder / "mine.yaml").write_text("anything: 1\n")
    assert groups() == before
    assert not {"ablation", "deploy"} & set(before)
    assert check_params().profile == "tiny"
