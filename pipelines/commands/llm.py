"""`longline llm`: the answers of models that are kept: how many, and moving and removing them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from stages.llm.store import Store

_STORE = click.option(
    "--store", "folder", type=click.Path(file_okay=False, path_type=Path),
    help="The store; by default LONGLINE_LLM_STORE, or runtime.llm.store of params.yaml.",
)  # fmt: skip


@click.group()
def llm() -> None:
    """The kept answers of language models: show, export, merge and prune them."""


@llm.command()
@_STORE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(folder: Path | None, as_json: bool) -> None:
    """Show how many answers there are, of which models, and what they take."""
    from stages.llm import exports

    with _open(folder) as store:
        found = exports.stats(store)
        where = store.folder
    if as_json:
        click.echo(json.dumps({"store": str(where), **found}, indent=1))
        return
    told = ", ".join(f"{number:,} {status}" for status, number in found["statuses"].items())
    click.echo(f"{where}: {found['answers']:,} answers{f' ({told})' if told else ''}")
    click.echo(f"{_size(found['bytes'])} of answers, {_size(found['bytes_on_disk'])} on disk")
    for row in found["models"]:
        click.echo(
            f"{row['model']}: {row['answers']:,} answers, {_size(row['bytes'])}, "
            f"{_day(row['oldest'])} to {_day(row['newest'])}, by {', '.join(row['backends'])}"
        )
    click.echo("next: longline llm export FILE.jsonl.zst, or longline llm prune --help")


@llm.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_STORE
def export(file: Path, folder: Path | None) -> None:
    """Write all answers to FILE as JSON lines, compressed if it ends in .zst."""
    from stages.llm import exports

    with _open(folder) as store:
        number = exports.export(store, file)
    click.echo(f"{file}: {number:,} answers, {_size(file.stat().st_size)}")
    click.echo(f"next: longline llm merge {file} (where the answers are wanted)")


@llm.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@_STORE
def merge(source: Path, folder: Path | None) -> None:
    """Bring in the answers of SOURCE: an export, or the folder of another store.

    An answer that is here already stays as it is.
    """
    from stages.llm import exports

    with _open(folder, make=True) as store:
        done = exports.merge(store, source)
        where = store.folder
    click.echo(
        f"{where}: {done.new:,} new, {done.known:,} known already, {done.differ:,} of them with "
        "another answer (the one here stayed)"
    )
    click.echo("next: dvc repro (with runtime.llm.replay=true it asks no model at all)")


@llm.command()
@_STORE
@click.option(
    "--older-than", type=click.FloatRange(min=0), metavar="DAYS",
    help="Only answers older than this.",
)  # fmt: skip
@click.option("--model", help="Only answers of this model, named as `longline llm stats` does.")
@click.option(
    "--max-size", type=click.FloatRange(min=0), metavar="MB",
    help="Then the oldest, until the rest fits.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
def prune(
    folder: Path | None, older_than: float | None, model: str | None, max_size: float | None,
    yes: bool,
) -> None:  # fmt: skip
    """Remove answers for good. What is asked again is computed, and paid, again."""
    from schemas.errors import UserError
    from stages.llm import exports

    if older_than is None and model is None and max_size is None:
        raise click.UsageError("say what to remove: --older-than, --model or --max-size")
    with _open(folder) as store:
        known = [row["model"] for row in exports.stats(store)["models"]]
        if model is not None and model not in known:
            raise UserError(f"the store has no answers of a model '{model}'", allowed=known)
        if not yes:
            click.confirm(f"remove answers from {store.folder} for good?", abort=True)
        removed = exports.prune(
            store,
            older_than=None if older_than is None else older_than * 86_400,
            model=model,
            max_bytes=None if max_size is None else int(max_size * 1e6),
        )
        left = exports.stats(store)
    click.echo(
        f"{removed:,} answers removed; {left['answers']:,} left, "
        f"{_size(left['bytes_on_disk'])} on disk"
    )


@contextmanager
def _open(folder: Path | None, make: bool = False) -> Iterator[Store]:
    from schemas.errors import UserError
    from stages.llm.store import Store

    where = folder or _configured()
    if not make and not (where / "answers.sqlite").exists():
        raise UserError(
            f"no store at {where}: nothing has been asked yet",
            fix="dvc repro, or name the store with --store",
        )
    store = Store.open(where)
    try:
        yield store
    finally:
        store.close()


def _configured() -> Path:
    from stages.llm.store import store_folder
    from stages.runtime.params import load_params

    return store_folder(load_params().runtime.llm.store)


def _size(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _day(seconds: Any) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
