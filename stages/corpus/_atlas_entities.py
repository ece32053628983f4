"""Choosing the atlas's entities, so that every name means one thing.

The rules, in order; names are compared without case and accents:

1. The names of the continents, of all candidate countries and of all their currencies are
   taken. A candidate is a country that exists today and whose name fits `max_words`.
2. Going down by population, a country keeps its capital unless that name is taken
   (Luxembourg, Singapore) or does not fit. A country without a usable capital is left out, so
   that every country page leads on to a city page. The first `countries` stay.
3. Further cities come from all chosen countries, by falling population; a name that is taken is
   passed over, so the larger of two namesakes stays.

The data has its quirks: two dissolved states and some old capital names are in it. A capital is
looked up in its country's cities, by name or else by alternate name, and named as that record is
(Nur-Sultan becomes Astana); the dissolved states are passed over.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas.errors import UserError
from stages.corpus._tokenizer import TOKEN

_DISSOLVED = {"AN", "CS"}  # Netherlands Antilles; Serbia and Montenegro


@dataclass(frozen=True)
class City:
    key: str
    name: str
    population: int
    timezone: str | None


@dataclass(frozen=True)
class Country:
    """A country as the package describes it, its capital first among its cities."""

    code: str
    name: str
    population: int
    record: Mapping[str, Any]
    capital: City
    cities: tuple[City, ...]


def fits(name: str, max_words: int | None) -> bool:
    """Whether a name is read as at most `max_words` words (tokens of the word-level tokenizer)."""
    return bool(name) and (max_words is None or len(re.findall(TOKEN, name)) <= max_words)


def folded(name: str) -> str:
    """A name as it is compared: without accents and case."""
    plain = unicodedata.normalize("NFKD", name)
    return "".join(char for char in plain if not unicodedata.combining(char)).casefold()


def choose(
    records: Iterable[Mapping[str, Any]],
    cities: Iterable[Mapping[str, Any]],
    continents: Iterable[str],
    *,
    countries: int,
    cities_per_country: int,
    max_words: int | None,
) -> list[Country]:
    """The chosen countries with their cities, by falling population of the country."""
    candidates = sorted(
        (r for r in records if r["iso"] not in _DISSOLVED and fits(r["name"].strip(), max_words)),
        key=lambda r: (-r["population"], r["iso"]),
    )
    taken = {folded(name) for name in continents}
    taken |= {folded(r["name"].strip()) for r in candidates}
    taken |= {folded(r["currencyname"].strip()) for r in candidates}
    by_country: dict[str, list[Mapping[str, Any]]] = {}
    for city in sorted(cities, key=lambda c: (-c["population"], c["geonameid"])):
        by_country.setdefault(city["countrycode"], []).append(city)
    chosen = []
    for record in candidates:
        capital = _capital(record, by_country.get(record["iso"], ()))
        if capital is None or not fits(capital.name, max_words) or folded(capital.name) in taken:
            continue
        taken.add(folded(capital.name))
        chosen.append(
            Country(record["iso"], record["name"].strip(), record["population"], record,
                    capital, (capital,))
        )  # fmt: skip
    if countries > len(chosen):
        limit = "" if max_words is None else f" of at most {max_words} word(s)"
        raise UserError(
            f"corpus.countries: {countries} asked, but only {len(chosen)} countries have an "
            f"unambiguous name and capital{limit}",
            fix=f"set corpus.countries to {len(chosen)} or less, or corpus.max_name_words to null",
        )
    return _with_cities(chosen[:countries], by_country, taken, cities_per_country, max_words)


def _capital(record: Mapping[str, Any], cities: Iterable[Mapping[str, Any]]) -> City | None:
    """The capital's record (the most populous that has its name), or the bare name."""
    name = record["capital"].strip()
    if not name:
        return None
    cities = list(cities)
    named = [c for c in cities if c["name"] == name]
    named = named or [c for c in cities if name in c["alternatenames"]]
    if named:
        return _city(named[0])
    return City(f"capital:{record['iso']}", name, 0, None)


def _city(record: Mapping[str, Any]) -> City:
    key = str(record["geonameid"])
    return City(key, record["name"].strip(), record["population"], record["timezone"])


def _with_cities(
    chosen: list[Country],
    by_country: Mapping[str, list[Mapping[str, Any]]],
    taken: set[str],
    per_country: int,
    max_words: int | None,
) -> list[Country]:
    """Give each country up to `per_country` further cities, the largest first over all of them."""
    found: dict[str, list[City]] = {country.code: [country.capital] for country in chosen}
    pool = [(code, _city(c)) for code in found for c in by_country.get(code, ())]
    pool.sort(key=lambda item: (-item[1].population, item[1].key))
    for code, city in pool:
        if len(found[code]) > per_country or folded(city.name) in taken:
            continue
        if fits(city.name, max_words):
            taken.add(folded(city.name))
            found[code].append(city)
    return [replace(country, cities=tuple(found[country.code])) for country in chosen]
