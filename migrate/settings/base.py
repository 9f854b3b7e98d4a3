"""What every section of the config is made of."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,48}$")]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
Seconds = Annotated[float, Field(gt=0)]
Positive = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))
