"""What every model call shares: prompts, the response layout, tokenizers, generation, scoring."""
