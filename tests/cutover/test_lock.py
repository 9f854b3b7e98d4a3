"""One cutover at a time, by a lease of the state."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from migrate.cutover.lock import alone
from migrate.settings import parse
from migrate.state import lease
from tests.helpers import raw_settings, unique


@pytest.mark.parametrize(("seconds", "freeze", "lasts"), [(60, 10, 60), (4, 30, 40)])
def test_the_lease_outlasts_a_freeze_that_begins_a_quarter_of_it_after_it_was_renewed(
    state: sa.Engine, seconds: float, freeze: float, lasts: float
) -> None:
    """Lost: the writes of applications for as long as the state hung, where a freeze may take longer than the lease:
    whose lease has run out gives nothing back without the state, as the next run may be under way."""
    raw = raw_settings(name=unique("lock"), lease={"seconds": seconds}, cutover={"freeze_seconds": freeze})
    settings = parse(raw, {})
    with alone(settings, state) as mine, state.connect() as connection:
        of_mine = lease.table.c.migration == settings.name
        taken = connection.execute(sa.select(lease.table.c.seconds).where(of_mine)).scalar_one()
        assert mine.unexpired
    assert lasts <= taken < lasts + 5
    assert taken * 3 / 4 >= freeze
