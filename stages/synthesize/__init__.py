"""Questions with answers, gold evidence and splits."""
