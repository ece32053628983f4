"""Where a request is answered: in this process, by vLLM, or by a server."""
