"""How the stages are wired and driven: parameters, command line and report."""
