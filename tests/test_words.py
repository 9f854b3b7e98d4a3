"""Words: what is retired is used nowhere, nothing cites a paper that is not here, and each invariant is what its page
says: docs/retired-words.md and docs/invariants.md are read, and held against code, tests, models and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.model_checker import BROKEN
from tests.mutations import MUTATIONS
from tests.test_docs import CLI, PAGES, ROOT, every_command

RETIRED = ROOT / "docs" / "retired-words.md"
INVARIANTS = ROOT / "docs" / "invariants.md"
FOLDERS = ("migrate", "jobs", "sql", "config", "sandbox", "tests", "docs", "bench", "examples")
KINDS = {".py", ".pml", ".sql", ".yaml", ".md", ".toml", ".sh", ".cfg", ".properties"}
PRODUCT = [path for folder in ("migrate", "jobs", "sandbox") for path in sorted((ROOT / folder).rglob("*.py"))]
OLD_WORDS = {RETIRED, ROOT / "CHANGELOG.md"}
"""Pages with words that are retired: the list of them, and what was released."""

CITATION = re.compile(
    r"\bDESIGN\b|\bFAULTS\b|§|\b[Rr]ules? \d|\b[Rr]ule \"|\b[Ss]eeds? 00\d|\([FS]\d{1,2}[),]", re.MULTILINE
)
_NAME = r"[a-z]+(?:-[a-z]+)+"
_NAMED = re.compile(rf"\binvariants?\s+(?=({_NAME}(?:(?:,\s+|\s+and\s+){_NAME})*)?)", re.IGNORECASE)
_ROW = re.compile(r"^\| `([\w ]+)` \| (everywhere|in sentences|as a module|as a class) \| (.+) \|$", re.MULTILINE)


@cache
def files() -> list[Path]:
    """Every text of the project, this one and data left out."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in KINDS]
    found += [*sorted(ROOT.glob("*.md")), ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
    data = ROOT / "sandbox" / "data"
    return [path for path in found if path != Path(__file__) and data not in path.parents]


def retired(how: str) -> dict[str, str]:
    """The words that are retired in this way, and what the page says instead."""
    return {word: instead for word, where, instead in _ROW.findall(RETIRED.read_text("utf-8")) if where == how}


def parts(name: str) -> set[str]:
    """The words that a name is made of: `LoadMeter`, `load_meter` and `LOAD_METER` have the same two."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def names(tree: ast.AST) -> Iterator[str]:
    """Of everything that code gives a name to or uses by its name."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def cited(text: str) -> list[str]:
    return [match.group() for match in CITATION.finditer(text)]


def invariants_named(text: str) -> list[str]:
    """What stands behind each word "invariant" of code, over line ends; "" where no name does."""
    joined = re.sub(r"\n\s*(?:#|--|\*)?\s*", " ", text)
    return [
        name
        for match in _NAMED.finditer(joined)
        for name in (re.split(r",\s+|\s+and\s+", match.group(1)) if match.group(1) else [""])
    ]


@cache
def sections() -> dict[str, str]:
    """The text about each invariant, by its name."""
    pieces = re.split(rf"^## `({_NAME})`$", INVARIANTS.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def entry(name: str, what: str) -> str:
    """One of the lines about an invariant; "" where it has none of the kind."""
    found = re.search(rf"^- \*\*{what}\*\* (.+)$", sections()[name], re.MULTILINE)
    return found.group(1) if found else ""


def paths(text: str) -> list[str]:
    return re.findall(r"`([\w/]+\.(?:py|pml)(?:::\w+)?)`", text)


# -- retired words


def test_the_page_has_the_retired_words() -> None:
    assert {"scroll", "ops"} <= retired("everywhere").keys()
    assert {"tenure", "kept", "apart", "looks"} <= retired("as a module").keys()
    assert {"Tenure", "Belief", "Looks"} <= retired("as a class").keys()
    assert {"way back", "stands still"} <= retired("in sentences").keys()


def test_no_module_has_a_retired_name() -> None:
    gone = retired("everywhere").keys() | retired("as a module").keys()
    assert [str(path) for path in PRODUCT if path.stem in gone or gone & {*path.relative_to(ROOT).parts}] == []


def test_no_name_in_the_code_has_a_word_that_is_retired_everywhere() -> None:
    gone = retired("everywhere").keys()
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in PRODUCT
        for name in names(ast.parse(path.read_text("utf-8")))
        if parts(name) & gone
    }
    assert found == set()


def test_no_help_has_a_word_that_is_retired_everywhere() -> None:
    gone = retired("everywhere").keys()
    for name, command in [("migrate", CLI), *every_command()]:
        told = [command.help or "", *(str(getattr(one, "help", "") or "") for one in command.params)]
        assert words(" ".join([name, *told])) & gone == set(), name


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OLD_WORDS], ids=lambda page: page.name)
def test_no_page_has_a_word_that_is_retired_everywhere(page: Path) -> None:
    assert words(page.read_text("utf-8")) & retired("everywhere").keys() == set()


def test_what_a_retired_module_became_is_there() -> None:
    for word, instead in retired("as a module").items():
        modules = re.findall(r"`([\w/]+)`", instead)
        assert modules, word
        assert [name for name in modules if not (ROOT / "migrate" / f"{name}.py").exists()] == [], word


def sentences(text: str) -> set[str]:
    """The phrases retired in sentences that a text has, over line ends too."""
    plain = re.sub(r"[\s#]+", " ", text.lower())
    return {phrase for phrase in retired("in sentences") if re.search(rf"\b{phrase}\b", plain)}


def test_a_retired_phrase_is_seen_over_line_ends() -> None:
    assert sentences("It Stands\n    # still.") == {"stands still"}
    assert sentences("the standstill of a away back") == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OLD_WORDS], ids=lambda page: page.name)
def test_no_page_has_a_retired_phrase(page: Path) -> None:
    assert sentences(page.read_text("utf-8")) == set()


def test_no_text_of_the_code_has_a_retired_phrase() -> None:
    assert [str(path) for path in PRODUCT if sentences(path.read_text("utf-8"))] == []


@cache
def classes() -> set[str]:
    """The names of all classes of the product."""
    trees = [ast.parse(path.read_text("utf-8")) for path in PRODUCT]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def test_no_class_has_a_retired_name() -> None:
    assert classes() & retired("as a class").keys() == set()


def test_what_a_retired_class_became_is_there() -> None:
    for word, instead in retired("as a class").items():
        now = re.findall(r"`(\w+)`", instead)
        assert now, word
        assert {*now} - classes() == set(), word


# -- citations


def test_nothing_cites_a_paper_that_is_not_here() -> None:
    found = [f"{path.relative_to(ROOT)}: {one}" for path in files() for one in cited(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        '(DESIGN §5)"""',
        "as DESIGN says",
        "(FAULTS S12)",
        "budget (F19).",
        "rules 10 and 11",
        "(seed 003)",
        'rule "x y"',
    ],
)
def test_a_citation_would_be_seen(text: str) -> None:
    assert cited(text)


@pytest.mark.parametrize("text", ["_FAULTS = ()", "rows of S1 to S2", "SEED=7", "the rule of a table", "(S3 too)"])
def test_what_is_none_is_not_taken_for_one(text: str) -> None:
    assert cited(text) == []


# -- invariants


def test_every_invariant_that_code_names_has_its_entry() -> None:
    code = [path for path in files() if path.suffix in {".py", ".sql", ".pml"} and path.parent != ROOT / "tests"]
    found = {
        f"{path.relative_to(ROOT)}: {name or '(none)'}"
        for path in code
        for name in invariants_named(path.read_text("utf-8"))
        if name not in sections()
    }
    assert found == set()


def test_a_name_is_seen_over_line_ends_and_one_that_is_missing_too() -> None:
    assert invariants_named("x (invariants a-b,\n# c-d-e). y (invariant\n-- f-g)") == ["a-b", "c-d-e", "f-g"]
    assert invariants_named("the invariant holds") == [""]


@pytest.mark.parametrize("name", sections())
def test_an_invariant_is_named_where_it_is_kept(name: str) -> None:
    texts = {path: (ROOT / path).read_text("utf-8") for path in paths(entry(name, "Kept in"))}
    assert texts
    assert [path for path, text in texts.items() if name in invariants_named(text)] != []


@pytest.mark.parametrize("name", sections())
def test_the_modules_tests_and_models_of_an_invariant_are_there(name: str) -> None:
    assert entry(name, "Kept in")
    assert entry(name, "Model")
    tests = paths(entry(name, "Tests"))
    assert tests
    assert all(path.startswith("tests/") and Path(path.partition("::")[0]).stem.startswith("test_") for path in tests)
    for path in paths(sections()[name]):
        file, _, function = path.partition("::")
        assert (ROOT / file).is_file(), path
        assert not function or f"def {function}(" in (ROOT / file).read_text("utf-8"), path


@pytest.mark.parametrize("name", sections())
def test_what_takes_an_invariant_out_of_a_model_is_what_the_page_names(name: str) -> None:
    taken = {
        (one.file, word.removeprefix("WITHOUT_"))
        for one in BROKEN
        if one.rule == name
        for word in one.without.split()
        if word.removeprefix("WITHOUT_") in re.findall(r"WITHOUT_(\w+)", sections()[name])
    }
    told = {
        (Path(file).name, word)
        for file, flags in re.findall(r"`(docs/model/\w+\.pml)`:((?: `\w+`,?)+)", entry(name, "Model"))
        for word in re.findall(r"WITHOUT_(\w+)", flags)
    }
    assert told == taken
    assert bool(told) or entry(name, "Model").startswith("none")


def test_every_rule_that_is_taken_out_of_a_model_is_an_invariant_that_names_it() -> None:
    for one in BROKEN:
        named = re.findall(r"WITHOUT_(\w+)", sections().get(one.rule, ""))
        assert one.rule in sections(), one.rule
        assert {word.removeprefix("WITHOUT_") for word in one.without.split()} & {*named}, (one.rule, one.without)


def test_the_mutations_that_the_page_names_are_made() -> None:
    named = {what for name in sections() for what in re.findall(r'"([^"]+)"', entry(name, "Mutations"))}
    assert named
    assert named - {mutation.what for mutation in MUTATIONS} == set()


def test_invariants_are_named_in_backquotes_by_the_models_page() -> None:
    table = (ROOT / "docs" / "model" / "README.md").read_text("utf-8")
    named = re.findall(rf"^\| `({_NAME})`", table, re.MULTILINE)
    assert named
    assert {*named} - sections().keys() == set()


def test_the_index_of_the_page_has_every_invariant_once() -> None:
    first, _, _ = INVARIANTS.read_text("utf-8").partition("\n## ")
    listed = re.findall(rf"\[`({_NAME})`\]\(#({_NAME})\)", first)
    assert sorted(name for name, _ in listed) == sorted(sections())
    assert all(name == anchor for name, anchor in listed)
