"""What preflight says of `ddl: {truncate: apply}` for tables with partitions. Costs 3 s a server."""

from __future__ import annotations

from migrate.preflight.result import Verdict
from tests.preflight.support import Case


def test_partitions_of_a_table_that_is_emptied_at_the_targets_are_noted(case: Case) -> None:
    """Lost: hours of lag, as the publisher stopped at the first partition that was to go."""

    def found(ddl: object) -> list[tuple[Verdict, str, str]]:
        case.raw["tables"][0]["ddl"] = ddl
        results = case.report(services=True).results
        return [(result.verdict, result.message, result.mend) for result in results if result.check == "truncate"]

    assert found({"truncate": "apply"}) == []
    case.at_source("ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN MAXVALUE)")
    assert found("apply") == []
    ((verdict, message, mend),) = found({"truncate": "apply"})
    assert verdict is Verdict.NOTE
    assert message.startswith(f"{case.database}.t has partitions: ")
    assert "`ALTER TABLE … TRUNCATE PARTITION` and `DROP PARTITION` stop the publisher whatever `ddl` says" in message
    assert mend.startswith("create its target tables by hand, without partitions")
