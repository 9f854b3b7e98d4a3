"""The documents hold: commands, options, tasks, links, config, messages and grants in them are the code's."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml
from pydantic import BaseModel

from jobs import full_copy, verify
from migrate.cli.main import build
from migrate.model import errors
from migrate.model.change import partition_of
from migrate.model.errors import MigrateError
from migrate.model.message import encode
from migrate.model.message_reader import decode
from migrate.preflight.check import At, Group
from migrate.preflight.registry import CHECKS
from migrate.settings import Settings, parse
from migrate.sharding.rule import build_rule
from migrate.sharding.spec import spec_of
from sandbox.__main__ import _arguments as sandbox_arguments
from sandbox.settings import IMAGES, KAFKA_VERSION
from tests.jobs.cluster import SPARK_HOME
from tests.sharding.test_class_based import install

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
RULES = ROOT / "tests" / "sharding" / "rules" / "plain.yaml"
USER_PAGES = [page for page in PAGES if page.name == "README.md" or page.parent == ROOT / "docs"]
CLI: Any = typer.main.get_command(build())
TASKS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M))
ENVIRONMENT = {f"{name}_PASSWORD": "x-long-and-random" for name in ("STATE", "SOURCE", "TARGET", "KAFKA")}
ENVIRONMENT["CHAT_HOOK"] = "https://chat.internal/hooks/long-and-random"
_TOKENS = ("WEB", "WEB_1", "WEB_2", "METRICS", "ONCALL", "DBA")
ENVIRONMENT |= {f"{name}_TOKEN": f"{name}-long-and-random" for name in _TOKENS}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_MIGRATE = re.compile(r"^(?:\.venv/bin/)?migrate( |$)")


@dataclass(frozen=True)
class Snippet:
    page: Path
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.text.strip().splitlines()[0]}"


def snippets(*languages: str) -> list[Snippet]:
    found = [
        Snippet(page, language, text) for page in PAGES for language, text in _FENCE.findall(page.read_text("utf-8"))
    ]
    return [snippet for snippet in found if snippet.language in languages]


def commands() -> Iterator[tuple[str, str]]:
    """(page, command line) of each shell line and of each inline code that begins with a command of ours."""
    for snippet in snippets("sh", "console"):
        for line in snippet.text.splitlines():
            if line.strip():
                yield snippet.page.name, re.split(r"(?:^|\s)#", line)[0].strip().removeprefix("$ ")
    for page in PAGES:
        for code in _INLINE.findall(_FENCE.sub("", page.read_text("utf-8"))):
            if _MIGRATE.match(code) or code.startswith("make "):
                # `migrate publish | consume` is a list of commands
                yield page.name, code


def words_of(line: str) -> list[str]:
    """The command line's words, without the variables set before it."""
    words = shlex.split(line)
    while words and re.match(r"^[A-Z_]+=", words[0]):
        words.pop(0)
    return words


def check_migrate(words: list[str]) -> None:
    """Raise when `migrate` with these words would not be understood."""
    if not words:
        return
    try:
        main = CLI.make_context("migrate", list(words))
    except typer.Exit:  # --version
        return
    rest = [*main._protected_args, *main.args]
    group: Any = CLI
    while hasattr(group, "commands") and rest:
        group, rest = group.commands[rest[0]], rest[1:]
    group.parse_args(type(main)(group, info_name=words[0], parent=main), rest)


@cache
def submit_options() -> frozenset[str]:
    told = subprocess.run([SPARK_HOME / "bin" / "spark-submit", "--help"], capture_output=True, text=True, timeout=120)
    return frozenset(re.findall(r"^\s+(--[\w-]+)(?:,| \S)", told.stderr, re.M))


def check_submit(words: list[str]) -> None:
    """Raise when `spark-submit` or the job's script with these words would not be understood."""
    while words[0].startswith("--"):
        assert words[0] in submit_options(), words[0]
        assert words[0] != "--conf" or re.match(r"spark\.[\w.-]+=", words[1]), words[1]
        words = words[2:]
    job = {"full_copy.py": full_copy, "verify.py": verify}[Path(words[0]).name]
    try:
        assert job.main(words[1:]) == errors.ConfigError.exit_code  # as far as the config file, which is not there
    except SystemExit as error:
        raise AssertionError(words) from error


def every_command(group: Any = CLI, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, command) of each, those of groups too."""
    for name, command in group.commands.items():
        yield prefix + name, command
        if hasattr(command, "commands"):
            yield from every_command(command, f"{prefix}{name} ")


# -- commands and tasks


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text("utf-8") for page in USER_PAGES)
    missing = [name for name, _ in every_command() if not re.search(rf"\bmigrate {name}\b", text)]
    assert CLI.commands
    assert missing == []


def test_every_task_of_the_makefile_is_documented() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    assert TASKS
    assert [task for task in sorted(TASKS) if not re.search(rf"\bmake {task}\b", text)] == []


def test_every_option_of_every_command_is_documented() -> None:
    text = "\n".join(page.read_text("utf-8") for page in USER_PAGES)
    options = {
        option
        for command in [CLI, *(command for _, command in every_command())]
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    }
    assert "--config" in options
    assert [option for option in sorted(options) if not re.search(rf"{option}\b", text)] == []


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())), ids=str)
def test_a_quoted_command_is_understood(page: str, line: str) -> None:
    words = words_of(line)
    match words:
        case ["migrate" | ".venv/bin/migrate", *rest]:
            check_migrate(rest)
        case ["make", *rest]:
            tasks = [word for word in rest if "=" not in word]
            assert set(tasks) <= TASKS, f"{page}: no such task"
        case [".venv/bin/python", "-m", "sandbox", *rest]:
            sandbox_arguments(rest)
        case [".venv/bin/python", "-m", "pytest", *rest]:
            paths = [word for word in rest if word.startswith("tests/")]
            assert paths
            assert all((ROOT / path).exists() for path in paths)
        case ["spark-submit", *rest]:
            check_submit(rest)
        case _:
            assert words == [] or words[0] in ("export", ".", ".venv/bin/pre-commit"), f"{page}: {line} is not checked"


def test_an_option_or_command_that_does_not_exist_would_be_seen() -> None:
    """Negative control of the check above."""
    for line in ("--masterr x full_copy.py", "--conf x=1 full_copy.py", "full_copy.py --tabel a.b"):
        with pytest.raises(AssertionError):
            check_submit(words_of(line))
    for wrong in (["status", "--jsonn"], ["reshard"], ["drain", "--timeout", "soon"], ["--conf", "x", "status"]):
        with pytest.raises(Exception, match=r"No such|no such|reshard|not a valid|valid number"):
            check_migrate(wrong)


def test_commands_that_do_not_exist_yet_are_promised_nowhere() -> None:
    for page in PAGES:
        for name in re.findall(r"`migrate ([a-z]+)", page.read_text("utf-8")):
            assert name in CLI.commands, f"{page.name} speaks of `migrate {name}`"


# -- links


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        if re.match(r"^[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_project_that_is_named_exists(page: Path) -> None:
    named = _INLINE.findall(_FENCE.sub("", page.read_text("utf-8")))
    paths = [code for code in named if re.match(r"^(migrate|jobs|tests|sandbox|sql|config|docs)/[\w./-]+$", code)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def defined(path: Path) -> set[str]:
    """Functions and classes of a module, and methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_the_walk_of_the_architecture_names_functions_that_are_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = re.findall(r"`((?:migrate|jobs)/[\w/]+\.py)`(?:\s+\(|,\s+)`([A-Za-z_.]+)`(?:, `([a-z_]+)`)?", page)
    named += [(path, name, "") for name, path in re.findall(r"`(\w+)` in `((?:migrate|jobs)/[\w/]+\.py)`", page)]
    assert len(named) > 20
    missing = [(path, name) for path, *names in named for name in names if name and name not in defined(ROOT / path)]
    assert missing == []


def test_the_walk_of_the_architecture_goes_through_the_folders_in_their_order() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    folders = re.findall(r"^\| `(\w+)/` \|", page, re.M)
    change = page.partition("## One change")[2].partition("\n## ")[0]
    passed = list(dict.fromkeys(re.findall(r"`migrate/(\w+)/", change)))
    stages = [one for one in passed if one not in ("kafka", "state")]
    assert stages == ["publish", "consume", "merge", "target", "commit", "delay"]
    assert stages == [one for one in folders if one in stages]


# -- config


def readme_config() -> dict[str, Any]:
    whole = [yaml.safe_load(snippet.text) for snippet in snippets("yaml")]
    configs: list[dict[str, Any]] = [item for item in whole if "sources" in item]
    assert len(configs) == 1, "the README has one config that can be copied"
    return configs[0]


@pytest.mark.parametrize("snippet", snippets("yaml"), ids=str)
def test_a_config_snippet_loads(snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = yaml.safe_load(snippet.text)
    if "CLASS_BASED" in snippet.text:  # the function is on the same page
        page = snippet.page.read_text("utf-8")
        code, points = (re.findall(rf"```{kind}\n(.*?)```", page, re.S)[0] for kind in ("python", "toml"))
        points = points.replace('"', "").replace("project.entry-points.", "")
        install(tmp_path, "shards_by_region", code, points)
        monkeypatch.syspath_prepend(tmp_path)
    if "sharding" in written:  # the part of one table
        content = {"content": RULES.read_bytes()} if "file" in written["sharding"] else {}
        spec = spec_of({**written["sharding"], **content}, "shop.orders")
        build_rule(spec, "orders", {"user_id": "bigint(20)", "id": "bigint(20)"})
        written = {"tables": [{"name": "shop.orders", **written}]}
    assert parse({**readme_config(), **written}, ENVIRONMENT)


def test_the_readme_config_routes_to_databases_it_names() -> None:
    settings = parse(readme_config(), ENVIRONMENT)
    for table in settings.tables:
        rule = build_rule(table.sharding, table.name, {"user_id": "bigint(20) unsigned", "id": "bigint(20) unsigned"})
        assert {place.database for place in rule.places} == set(settings.databases)
        assert rule.route({"user_id": "7", "id": "42"}) in rule.places


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        yield key
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                many = "" if kind is field.annotation else "[]"
                yield from keys_of(kind, f"{key}{many}.")


def test_every_setting_that_is_named_exists() -> None:
    known = set(keys_of(Settings))
    first = {key.split(".")[0].split("[")[0] for key in known}
    assert "consume.merge_interval_seconds" in known
    assert "tables[].ddl" in known
    unknown = []
    for page in PAGES:
        for code in _INLINE.findall(_FENCE.sub("", page.read_text("utf-8"))):
            match = re.match(r"^([a-z_]+)(\[\])?\.(?!log$)[a-z_.]+(?=$|:)", code)
            if match and match.group(1) in first - {"name"} and match.group(0) not in known:
                unknown.append(f"{page.name}: {code}")
    assert unknown == []


# -- messages


@pytest.mark.parametrize("snippet", snippets("json"), ids=str)
def test_a_message_in_the_docs_is_what_the_code_reads_and_writes(snippet: Snippet) -> None:
    written = json.loads(snippet.text)
    assert json.loads(encode(decode(snippet.text.encode(), "docs", 0))) == written


@pytest.mark.parametrize("snippet", snippets("python"), ids=str)
def test_python_in_the_docs_runs(snippet: Snippet) -> None:
    assert "assert" in snippet.text
    exec(compile(snippet.text, str(snippet), "exec"), {})  # noqa: S102 - our own documents


def test_the_partition_in_the_docs_is_the_codes() -> None:
    assert partition_of("shop", "orders", ("42",), 8) == 6


# -- facts repeated in the docs


def test_exit_codes_are_the_codes() -> None:
    table = re.findall(r"^\| (\d+) \|", (ROOT / "docs/reference.md").read_text("utf-8"), re.M)
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MigrateError)]
    assert [int(code) for code in table] == sorted({0, *(kind.exit_code for kind in classes)})


def test_the_checks_of_preflight_are_those_that_the_page_lists_in_their_order() -> None:
    """A server that does not answer is a result by its role."""
    page = (ROOT / "docs/preflight.md").read_text("utf-8")
    listed = {
        title.lower(): re.findall(r"^\| ([a-z_ ]+) \|", table, re.M)[1:]
        for title, table in re.findall(r"^## (\w+)\n.*\n\n(\| check \|(?:.*\n)+?)\n", page, re.M)
    }
    groups = {one.name: one.group for one in CHECKS}
    registered: dict[str, list[str]] = {"servers": [], "schema": [], "capacity": [], "topics": []}
    for one in CHECKS:
        for name in (*([] if one.at is At.HERE else [one.at.value]), one.name):
            group = "servers" if groups.get(name, Group.SERVER) is Group.SERVER else str(groups[name])
            if name not in registered[group]:
                registered[group].append(name)
    assert listed == registered


def test_each_check_of_preflight_is_in_one_group_and_makes_results_of_its_name() -> None:
    groups = {(one.name, one.group) for one in CHECKS}
    registered = {name for name, _ in groups} | {one.at.value for one in CHECKS}
    assert len(groups) == len({name for name, _ in groups})
    made = set()
    for module in (ROOT / "migrate/preflight").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Result":
                made |= {named.value} if isinstance(named := node.args[0], ast.Constant) else set()
    assert made <= registered


def test_decisions_are_numbered_and_have_their_parts() -> None:
    files = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert [file.name[:4] for file in files] == [f"{number:04d}" for number in range(1, len(files) + 1)]
    for file in files:
        text = file.read_text("utf-8")
        assert text.startswith(f"# {file.name[:4]} ")
        parts = re.findall(r"^\*\*(Context|Decision|Why|Consequences)\.?\*\*", text, re.M)
        assert parts == ["Context", "Decision", "Why", "Consequences"], file.name


def test_the_licence_is_the_one_that_the_package_declares() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_versions_in_the_readme_are_those_of_the_sandbox() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    versions = {"Kafka": KAFKA_VERSION, **{image.split(":")[0]: image.split(":")[1] for image in IMAGES.values()}}
    for product, version in versions.items():
        short = ".".join(version.split(".")[:2])
        assert re.search(rf"\b{product} {re.escape(short)}\b", readme, re.I), f"{product} {short}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_path_of_one_machine(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|home|root|tmp|opt(?!/migrate\b))/\S*", page.read_text("utf-8")) == []
