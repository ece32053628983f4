"""Corpus: from the user's files, a benchmark or a generator to documents, chunks and triples."""
