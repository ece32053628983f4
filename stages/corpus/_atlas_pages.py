"""The atlas's facts and pages: each fact is one sentence, each entity with a fact one page.

    The currency of France is Euro. The capital of France is Paris. ...

A fact whose value is missing in the data, or does not fit `max_words`, is left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.ids import seeded
from stages.corpus._atlas_entities import City, Country, fits

CountryRelation = Literal[
    "capital", "continent", "currency", "neighbour", "code", "domain", "dialling", "population",
    "area",
]  # fmt: skip
CityRelation = Literal["country", "timezone", "population"]

_NAMES = {"capital", "continent", "currency", "neighbour", "country"}
_TYPES = {
    "capital": "city", "continent": "continent", "currency": "currency", "neighbour": "country",
    "country": "country", "population": "number", "area": "number",
}  # fmt: skip


@dataclass(frozen=True)
class Fact:
    relation: str
    value: str
    value_type: str


@dataclass(frozen=True)
class Page:
    """A page, with the span of each fact's sentence in its text."""

    title: str
    kind: Literal["country", "city"]
    facts: tuple[Fact, ...]
    text: str
    spans: tuple[tuple[int, int], ...]


def pages(
    countries: Sequence[Country],
    continents: Mapping[str, str],
    country_relations: Sequence[str],
    city_relations: Sequence[str],
    max_words: int | None,
    seed: int,
) -> Iterator[Page]:
    """Country by country: its page, then those of its capital and its other cities."""
    by_code = {country.code: country for country in countries}
    for country in countries:
        facts = [(name, _COUNTRY[name](country, by_code, continents)) for name in country_relations]
        yield from _page(country.name, "country", facts, max_words, seed)
        for city in country.cities:
            of_city = [(name, _CITY[name](city, country)) for name in city_relations]
            yield from _page(city.name, "city", of_city, max_words, seed)


def _page(
    title: str,
    kind: Literal["country", "city"],
    values: Sequence[tuple[str, str | None]],
    max_words: int | None,
    seed: int,
) -> Iterator[Page]:
    """The page, if there is a fact. Its order is drawn, so that a place in it tells nothing."""
    facts = [
        Fact(relation, value, _TYPES.get(relation, relation))
        for relation, value in values
        if value and (relation not in _NAMES or fits(value, max_words))
    ]
    if not facts:
        return
    random.Random(seeded(seed, "atlas", title)).shuffle(facts)
    spans = []
    text = ""
    for fact in facts:
        text += " " if text else ""
        start = len(text)
        text += f"The {fact.relation} of {title} is {fact.value}."
        spans.append((start, len(text)))
    yield Page(title, kind, tuple(facts), text, tuple(spans))


def _neighbour(country: Country, by_code: Mapping[str, Country]) -> str | None:
    """The most populous neighbour that has a page."""
    there = [by_code[c] for c in country.record["neighbours"].split(",") if c in by_code]
    return max(there, key=lambda c: (c.population, c.code)).name if there else None


def _number(value: float) -> str | None:
    return str(round(value)) if value else None


_COUNTRY: dict[str, Callable[[Country, Mapping[str, Country], Mapping[str, str]], str | None]] = {
    "capital": lambda c, _, __: c.capital.name,
    "continent": lambda c, _, continents: continents[c.record["continentcode"]],
    "currency": lambda c, _, __: c.record["currencyname"].strip(),
    "neighbour": lambda c, by_code, __: _neighbour(c, by_code),
    "code": lambda c, _, __: c.record["iso3"],
    "domain": lambda c, _, __: c.record["tld"].strip().lstrip("."),
    "dialling": lambda c, _, __: c.record["phone"].strip().lstrip("+"),
    "population": lambda c, _, __: _number(c.population),
    "area": lambda c, _, __: _number(c.record["areakm2"]),
}
_CITY: dict[str, Callable[[City, Country], str | None]] = {
    "country": lambda _, country: country.name,
    "timezone": lambda city, _: city.timezone,
    "population": lambda city, _: _number(city.population),
}
