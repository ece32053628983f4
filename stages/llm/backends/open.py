"""Opening the back end that `runtime.llm` names. Its libraries are imported only then."""

from __future__ import annotations

from stages.llm.backends.protocol import Backend
from stages.llm.model import Model
from stages.runtime.llm import LlmChoice
from stages.runtime.params import Runtime


def open_backend(model: Model, settings: LlmChoice, runtime: Runtime) -> Backend:
    """An open back end. `UserError` when the model or the server is not there."""
    if settings.backend == "server":
        from stages.llm.backends.server import open_server

        return open_server(model, settings.server)
    from stages.llm.backends.transformers import open_transformers

    return open_transformers(model, settings.transformers, runtime)
