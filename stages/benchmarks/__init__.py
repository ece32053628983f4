"""Reading question-answering benchmarks: what corpus and synthesize both need of their formats."""
