"""What was learned, measured on held-out questions."""
