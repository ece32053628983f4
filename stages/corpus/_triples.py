"""From a source's triples to rows: the document found, the stating sentence located.

Guarantees: a triple of a document that is unknown, or not named uniquely, is quarantined with
what it named; the same edge of the same document is kept once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.ids import content_id
from stages.corpus._locate import stating_sentence
from stages.corpus._source import SourceTriple
from stages.corpus._spool import Spool
from stages.runtime.context import StageContext
from stages.runtime.progress import track
from stages.runtime.rejected import Rejected, excerpt, is_unicode, reject


def write_triples(
    context: StageContext, spool: Spool, triples: Iterable[SourceTriple | Rejected]
) -> int:
    """Write the edges whose document is known; returns how many items came."""
    writer = context.writer("triples")
    items = 0
    for item in track(triples, "triples read"):
        items += 1
        row = _triple_row(spool, item) if isinstance(item, SourceTriple) else item
        if isinstance(row, Rejected):
            reject(writer, row)
        elif spool.first_time(row["triple_id"]):
            writer.add(row)
        else:
            writer.drop("duplicate")
    return items


def _triple_row(spool: Spool, triple: SourceTriple) -> dict[str, Any] | Rejected:
    content = excerpt([triple.head, triple.relation, triple.tail])
    if not is_unicode(*(v for v in vars(triple).values() if isinstance(v, str))):
        return Rejected(triple.source, "invalid_unicode", "half of a surrogate pair", content)
    found = spool.find(triple.doc_id, triple.title)
    if len(found) != 1:
        named = triple.doc_id if triple.doc_id is not None else triple.title
        rule, how = ("ambiguous_document", "several documents are")
        if not found:
            rule, how = ("unknown_document", "no document is")
        return Rejected(triple.source, rule, f"{how} called '{excerpt(named)}'", content)
    doc_id, text = found[0]
    head, relation, tail = triple.head.strip(), triple.relation.strip(), triple.tail.strip()
    start, end = triple.span or stating_sentence(text, head, tail) or (None, None)
    return {
        "triple_id": content_id(head, relation, tail, doc_id),
        "head": head,
        "relation": relation,
        "tail": tail,
        "head_type": triple.head_type,
        "tail_type": triple.tail_type,
        "doc_id": doc_id,
        "char_start": start,
        "char_end": end,
    }
