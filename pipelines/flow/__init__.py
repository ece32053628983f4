"""The graph as Prefect flows: one task a stage. The only modules that import Prefect."""
