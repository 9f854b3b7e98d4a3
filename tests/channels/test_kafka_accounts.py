"""A broker behind TLS and passwords, whose authorizer lets each account do what it was given: who is refused, and why.

One broker for all of it (8 s), some 30 rights that are taken away one at a time (10 s), and a migration whose processes
have accounts of their own (20 s, long).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from migrate.kafka import admin, rights
from migrate.kafka.reader import PartitionReader
from migrate.kafka.rights import Kind, Process, Right
from migrate.model.errors import ServerError
from migrate.preflight.result import Verdict
from migrate.preflight.topics import account_rights
from migrate.settings import Kafka, Settings, load_with_text
from sandbox.broker import Accounts, KafkaBroker
from sandbox.stack import Sandbox
from tests.channels.certificates import Authority
from tests.failover.support import Flow
from tests.helpers import make_settings, unique
from tests.waiting import until

_ACCOUNTS = ("nobody", "anybody", *Process)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker with accounts that may do nothing yet."""

    broker: KafkaBroker
    accounts: Accounts
    other: Path
    """The certificate of an authority that signed nothing here."""
    admin: AdminClient

    def settings(self, account: str, **changes: str) -> Settings:
        security = {**self.accounts.options(account), **changes}
        return make_settings(
            kafka={"bootstrap": self.broker.bootstrap, "topic": unique("guarded"), "security": security}
        )

    def make(self, settings: Settings) -> None:
        """Its topics, by the account that may do everything."""
        names = [name for topic in settings.topics for name in (topic, *settings.delay_topics(topic))]
        for made in self.admin.create_topics([NewTopic(name, 1) for name in names]).values():
            made.result(30)
        whole = self.with_account(settings, "admin")
        until(lambda: all(admin.describe(whole.kafka, name) for name in names), "the topics")

    def with_account(self, settings: Settings, account: str) -> Settings:
        kafka = settings.kafka.model_copy(update={"security": self.accounts.options(account), "token_command": ()})
        return settings.model_copy(update={"kafka": kafka})

    def as_account(self, account: str) -> dict[str, str]:
        """The environment of a process."""
        return {"WHO": account, "PASSWORD": self.accounts.passwords[account]}

    def give(self, account: str, *given: Right) -> None:
        for made in self.admin.create_acls([binding(account, right) for right in given]).values():
            made.result(30)

    def take(self, account: str, right: Right) -> None:
        of = binding(account, right)
        taken = AclBindingFilter(
            of.restype, of.name, of.resource_pattern_type, of.principal, of.host, of.operation, of.permission_type
        )
        for one in self.admin.delete_acls([taken]).values():
            assert len(one.result(30)) == 1


def binding(account: str, right: Right) -> Any:
    kind = {Kind.TOPIC: ResourceType.TOPIC, Kind.GROUP: ResourceType.GROUP}[right.kind]
    operation = AclOperation[right.operation.upper()]
    pattern, allowed = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(kind, right.name, pattern, f"User:{account}", "*", operation, allowed)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, run_root: Path) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("authority")
    authority, other = Authority(directory), Authority(directory, "other")
    signed, both = authority.sign("broker", "127.0.0.1"), directory / "both.pem"
    both.touch(mode=0o600)
    both.write_bytes(signed.key.read_bytes() + signed.certificate.read_bytes())
    accounts = Accounts(both, authority.ca, {name: f"{name}'s password" for name in ("admin", *_ACCOUNTS)})
    broker = KafkaBroker(run_root / unique("guarded"), accounts=accounts)
    broker.start()
    client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0, **accounts.options("admin")})
    yield Guarded(broker, accounts, other.ca, client)
    broker.stop()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT", 2.0)


def refused(kafka: Kafka) -> ServerError:
    with pytest.raises(ServerError) as raised:
        admin.brokers(kafka)
    return raised.value


def test_a_wrong_password_is_said_as_such_and_is_not_written(guarded: Guarded, impatient: None) -> None:
    error = refused(guarded.settings("nobody", **{"sasl.password": "quite another"}).kafka)
    assert "Authentication failed" in error.message
    assert "sasl.password" in error.hint
    assert "quite another" not in f"{error.message} {error.hint}"


def test_a_broker_whose_certificate_another_authority_signed_is_not_talked_to(
    guarded: Guarded, impatient: None
) -> None:
    error = refused(guarded.settings("admin", **{"ssl.ca.location": str(guarded.other)}).kafka)
    assert "certificate verify failed" in error.message
    assert "ssl.ca.location" in error.hint


def test_a_broker_that_is_not_there_is_told_apart_from_one_that_refuses(guarded: Guarded, impatient: None) -> None:
    settings = guarded.settings("admin").kafka.model_copy(update={"bootstrap": "127.0.0.1:1"})
    assert "check that the broker is up" in refused(settings).hint


@pytest.mark.parametrize("process", Process)
def test_each_right_that_a_process_lacks_is_named_at_its_start(guarded: Guarded, process: Process) -> None:
    settings = guarded.settings(process)
    guarded.make(settings)
    wanted = rights.of(settings, process)
    guarded.give(process, *wanted)
    until(lambda: rights.lacking(settings.kafka, wanted) == [], "what was given")
    rights.require(settings, process)
    for right in wanted:
        guarded.take(process, right)
        until(lambda: len(rights.lacking(settings.kafka, wanted)) == 1, f"{right} to be taken")
        with pytest.raises(ServerError) as raised:
            rights.require(settings, process)
        assert raised.value.message.endswith(f"account '{process}' lacks {right}")
        assert right.grant(settings.kafka) in raised.value.hint
        guarded.give(process, right)
        until(lambda: rights.lacking(settings.kafka, wanted) == [], "what was given back")


def test_preflight_names_what_any_process_would_lack(guarded: Guarded) -> None:
    settings = guarded.settings("anybody")
    guarded.make(settings)
    every = list(dict.fromkeys(right for process in Process for right in rights.of(settings, process)))
    found = account_rights.check(settings)
    assert [(one.verdict, one.subject) for one in found] == [(Verdict.PROBLEM, right.name) for right in every]
    guarded.give("anybody", *every)
    until(lambda: [one.verdict for one in account_rights.check(settings)] == [Verdict.PASS], "what was given")
    delays = [right for right in every if right.name in settings.delay_topics(settings.topic)]
    guarded.take("anybody", delays[0])
    until(lambda: len(account_rights.check(settings)) == 1 and not passes(settings), "what was taken")
    (lacks,) = account_rights.check(settings)
    assert str(delays[0]) in lacks.message
    assert "`migrate requeue`" in lacks.message


def passes(settings: Settings) -> bool:
    return [one.verdict for one in account_rights.check(settings)] == [Verdict.PASS]


def test_where_nobody_is_refused_anything_all_is_given(kafka: KafkaBroker) -> None:
    settings = make_settings(kafka={"bootstrap": kafka.bootstrap, "topic": unique("open"), "partitions": 1})
    admin.create_topic(settings.kafka, settings.topic, 1)
    assert [rights.lacking(settings.kafka, rights.of(settings, process)) for process in Process] == [[]] * len(Process)
    assert account_rights.check(settings) == []


TOKEN = """\
import base64, json, os, time
from pathlib import Path

def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

with open(Path(__file__).with_suffix(".runs"), "a") as runs:
    runs.write("1")
assert "PASSWORD" not in os.environ
now, seconds = time.time(), float(os.environ.get("SECONDS", 600))
print(part({"alg": "none"}) + "." + part({"sub": os.environ["WHO"], "iat": now, "exp": now + seconds}) + ".")
"""
"""A program that prints a token of the account that WHO names."""


def token_command(directory: Path, text: str = TOKEN) -> list[str]:
    program = directory / "token.py"
    program.write_text(text, "utf-8")
    return [sys.executable, str(program)]


def by_token(guarded: Guarded, directory: Path, text: str = TOKEN) -> Kafka:
    security, command = guarded.accounts.by_token(), token_command(directory, text)
    more = {"security": security, "token_command": command, "token_environment": ["WHO", "SECONDS"]}
    return make_settings(kafka={"bootstrap": guarded.broker.bootstrap, "topic": unique("guarded"), **more}).kafka


def test_a_client_asks_the_program_for_another_token_before_its_own_ends(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cloud's token is valid for minutes, and a publisher runs for weeks."""
    monkeypatch.setenv("WHO", "admin")
    monkeypatch.setenv("PASSWORD", "of somebody else's")
    monkeypatch.setenv("SECONDS", "5")
    settings, runs = by_token(guarded, tmp_path), tmp_path / "token.runs"
    assert admin.brokers(settings) == 1
    with closing(PartitionReader(settings, "tokens")) as reader:
        before = runs.stat().st_size
        until(lambda: (reader.poll(1, 0.1), runs.stat().st_size > before + 1)[1], "a second token of this client's")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("print('a'); print('b'); print('c')", "printed 3 lines instead of one or two"),
        ("print('opaque')", "when the token ends is not known"),
        ("print('opaque'); print(1)", "the token has ended already"),
    ],
)
def test_why_there_is_no_token_is_told_and_never_the_token(
    guarded: Guarded, tmp_path: Path, impatient: None, text: str, told: str
) -> None:
    error = refused(by_token(guarded, tmp_path, text))
    assert told in error.message, error
    assert "opaque" not in f"{error.message} {error.hint}"


def flow_with_accounts(box: Sandbox, guarded: Guarded, directory: Path, how: str) -> Flow:
    """Of commands with the account that may do everything, and of processes with accounts of their own."""
    options = {**guarded.accounts.options("admin"), "sasl.username": "${WHO}", "sasl.password": "${PASSWORD}"}
    more = ""
    if how == "token":
        options = guarded.accounts.by_token()
        more = f", token_environment: [WHO], token_command: {json.dumps(token_command(directory))}"
    security = f", security: {json.dumps(options)}{more}"
    flow = Flow(box, guarded.broker, directory, unique("accounts"), box.source, kafka_more=security)
    flow.migration.environment.update(guarded.as_account("admin"))
    return flow


@pytest.mark.long
@pytest.mark.parametrize("how", ["password", "token"])
def test_each_process_works_with_an_account_that_has_what_it_needs_and_says_what_is_taken_away(
    box: Sandbox, guarded: Guarded, tmp_path: Path, how: str
) -> None:
    """A delete that finds nothing goes through the delay topics and back."""
    with closing(flow_with_accounts(box, guarded, tmp_path, how)) as flow:
        settings = load_with_text(flow.migration.config, flow.migration.environment)[0]
        box.source.execute("INSERT INTO orders VALUES (1, 1, 1, 'never copied')", database=flow.database)
        flow.migration.do("init")
        for process in Process:
            guarded.give(process, *rights.of(settings, process))
            flow.child(process, process, environment=guarded.as_account(process))
        until(flow.position, "the first position")
        flow.close_copy()  # or deletes that find nothing would come back for ever
        box.source.execute(
            "DELETE FROM orders",
            *(f"INSERT INTO orders VALUES ({id_}, {id_}, {id_}, 'a')" for id_ in range(2, 9)),
            "UPDATE orders SET value = value + 1",
            "DELETE FROM orders WHERE id = 8",
            database=flow.database,
        )
        flow.drain()
        assert flow.differences(box.source) == []
        ends = guarded.with_account(settings, "admin")
        with closing(PartitionReader(ends.kafka, settings.group)) as reader:
            until(
                lambda: all(
                    reader.bounds(settings.topic, part)[1] == (reader.committed(settings.topic, part) or 0)
                    for part in range(settings.kafka.partitions)
                ),
                "every offset to be committed",
            )

        write = Right(Kind.TOPIC, settings.topic, "Write")
        guarded.take(Process.PUBLISH, write)
        (publisher,) = flow.children("publish")
        box.source.execute("INSERT INTO orders VALUES (9, 9, 9, 'a')", database=flow.database)
        until(lambda: "Topic authorization failed" in publisher.log.read_text("utf-8"), "the publisher to say so")
        guarded.give(Process.PUBLISH, write)
        flow.drain()
        assert flow.differences(box.source) == []
