"""What is done to the data: one package a stage, one module a variant."""
