"""Which model is asked: a folder of this machine, or a name that a server knows.

Part of a stage's identity. Where the model runs is not: `runtime.llm` says that.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from stages.runtime.variant import Settings


class Model(Settings):
    """A model, with `folder` (or `package:NAME`, see stages/llm/packaged.py) or `name` set.

    A folder is known by what its files hold, a name by itself and `revision`: raise the revision
    when the server behind the name has changed and its old answers should not be used.
    """

    folder: str | None = Field(default=None, min_length=1)
    name: str | None = Field(default=None, min_length=1)
    revision: str = ""
    adapter: str | None = Field(default=None, min_length=1, description="Folder of a LoRA adapter")
    thinking: bool | None = Field(
        default=None,
        description="What the chat template of a hybrid model is told (enable_thinking)",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.folder is None) == (self.name is None):
            raise ValueError("a model has either a folder or a name")
        if self.folder is not None and self.revision:
            raise ValueError("a folder is known by its content: it takes no revision")
        return self

    @property
    def label(self) -> str:
        """How people know it."""
        return self.folder or self.name or ""
