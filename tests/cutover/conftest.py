"""A state database of each module's own, on both servers."""

from __future__ import annotations

from tests.state.conftest import state as state
from tests.state.conftest import state_settings as state_settings
