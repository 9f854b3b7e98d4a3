"""One alarm as its receivers get it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from migrate.alarms.conditions import Kind
from migrate.model.times import in_utc
from migrate.state.alarms import Alarm


class Status(StrEnum):
    RAISED = "raised"
    REPEATED = "repeated"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Letter:
    """since, at: when it began, and now; UTC."""

    migration: str
    alarm: Alarm
    status: Status
    at: datetime

    @property
    def title(self) -> str:
        about = f" {self.alarm.subject}" if self.alarm.subject else ""
        return f"[{self.status}] migration {self.migration}: {self.alarm.kind}{about}"

    @property
    def facts(self) -> dict[str, str]:
        """What a command gets, in names of its environment, and a program as JSON in small letters."""
        return {
            "migration": self.migration,
            "alarm": self.alarm.kind,
            "subject": self.alarm.subject,
            "status": self.status.value,
            "message": self.alarm.message,
            "remedy": self.alarm.remedy,
            "since": in_utc(self.alarm.since, "seconds"),
            "at": in_utc(self.at, "seconds"),
        }

    def slack(self) -> dict[str, Any]:
        """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks"""
        way = "" if self.status is Status.RESOLVED else f"\n`{_escaped(self.alarm.remedy)}`"
        return {"text": f"*{_escaped(self.title)}*\n{_escaped(self.alarm.message)}{way}"}

    def alertmanager(self, repeat_seconds: float) -> list[dict[str, Any]]:
        """For its POST /api/v2/alerts: https://prometheus.io/docs/alerting/latest/alerts_api/"""
        ended = self.status is Status.RESOLVED
        until = self.at if ended else self.at + timedelta(seconds=2 * repeat_seconds)
        labels = {"alertname": f"Migrate {self.alarm.kind}", "migration": self.migration, "subject": self.alarm.subject}
        return [
            {
                "labels": {name: value for name, value in labels.items() if value},
                "annotations": {"summary": self.alarm.message, "remedy": self.alarm.remedy},
                "startsAt": in_utc(self.alarm.since, "seconds"),
                "endsAt": in_utc(until, "seconds"),
            }
        ]


def trial(migration: str, status: Status = Status.RAISED) -> Letter:
    """Of no alarm."""
    now = datetime.now(UTC).replace(tzinfo=None)
    message = "a test: this receiver gets the alarms of the migration"
    return Letter(migration, Alarm(Kind.TEST, "", message, "migrate status", now, now, None), status, now)


def _escaped(text: str) -> str:
    """As Slack wants it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
