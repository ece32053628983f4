"""A BM25 index over the documents (bm25s), with ties broken by document id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import bm25s
    import numpy as np


@dataclass(frozen=True)
class SearchIndex:
    """Search over title and text. `doc_ids[i]` is the document of row i, in sorted order."""

    doc_ids: tuple[str, ...]
    _bm25: bm25s.BM25 | None
    """None if no document has a word of two letters, which nothing can find."""

    @classmethod
    def build(cls, documents: Iterable[dict[str, Any]]) -> SearchIndex:
        """Index rows with doc_id, title and text, which come in the order of doc_id."""
        import bm25s

        doc_ids: list[str] = []

        def texts() -> Iterable[str]:
            for document in documents:
                doc_ids.append(document["doc_id"])
                yield f"{document['title']}\n{document['text']}"

        tokens = bm25s.tokenize(list(texts()), stopwords=None, show_progress=False)
        if not any(tokens.ids):
            return cls(tuple(doc_ids), None)
        index = bm25s.BM25()
        index.index(tokens, show_progress=False)
        return cls(tuple(doc_ids), index)

    def search(self, query: str, top_k: int) -> list[str]:
        """Up to `top_k` documents with a positive score, best first."""
        import bm25s
        import numpy as np

        if self._bm25 is None:
            return []
        words = bm25s.tokenize(query, stopwords=None, return_ids=False, show_progress=False)[0]
        known = [word for word in words if word in self._bm25.vocab_dict]
        if not known:
            return []
        scores: np.ndarray = self._bm25.get_scores(known)
        # A stable sort over rows in the order of doc_id: equal scores keep that order.
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [self.doc_ids[row] for row in order if scores[row] > 0]
