"""What status leads to where a migration can have no reverse stream."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from migrate.status import reverse_stream
from migrate.status.told import told
from tests.helpers import make_settings, plain_table, plan_of, unique


def test_what_can_have_no_reverse_stream_leads_to_the_preflight_that_names_it(
    state: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost: the way on, as `migrate --reverse init` was named, which always refuses it."""
    settings = make_settings(name=f"{unique('long')}_{'x' * 40}"[:45])
    monkeypatch.setattr(reverse_stream, "stored_plan", lambda *_: plan_of(plain_table(), settings=settings))
    found = reverse_stream.look(settings, state)
    assert str(found.next) == "migrate preflight"
    (held,) = map(told, found.held)
    assert "leaves no room for the reverse stream's" in held
    assert "up to 40 characters" in held
