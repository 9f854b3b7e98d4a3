"""Inline expressions: what is refused, by name, and that nothing in them is ever run."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from migrate.model.errors import ConfigError
from migrate.sharding.inline import compile_inline, expand_nodes
from migrate.sharding.javatypes import JavaType

WORDS = """
x ${ } $->{ $ t_ ( ) [ ] ' " . .. , % / * + - << >>> & ~ ! ? : == && 0 1 4 99999999999 1.5 3G 5L 0x1F (int)
hashCode() abs() toString() substring( padLeft( Math.abs( String.format('%02d', intdiv(
"""
PIECES = st.sampled_from([*WORDS.split(), " ", " as int"])


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("t_${x.class}", "Groovy's 'x.class' is not supported here"),
        ("t_${(x).abs().name}", "Groovy's property '.name' is not supported here"),
        ("t_${x.getClass()}", "Groovy's Long.getClass() is not supported here"),
        ("t_${System.exit(1)}", "'System' is not the sharding column 'x'"),
        ("t_${'id'.execute()}", "Groovy's String.execute() is not supported here"),
        ("t_${Long.forName('a')}", "Groovy's Long.forName(String) is not supported here"),
        ("t_${Math.random()}", "Groovy's Math.random() is not supported here"),
        ("t_${new File('a')}", "Groovy's 'new' is not supported here"),
        ("t_${x.with { it }}", "Groovy's '{' is not supported here"),
        ("t_${[1, 2][0]}", "Groovy's '[' is not supported here"),
        ("t_${x = 5}", "Groovy's '=' is not supported here"),
        ("t_${x; x}", "Groovy's ';' is not supported here"),
        ("t_${x ** 2}", "Groovy's '**' is not supported here"),
        ("t_${x++}", "Groovy's '++' is not supported here"),
        ("t_${x ?: 1}", "Groovy's '?:' is not supported here"),
        ("t_${x?.abs()}", "Groovy's '?.' is not supported here"),
        ("t_${x <=> 1}", "Groovy's '<=>' is not supported here"),
        ("t_${x =~ 'a'}", "Groovy's '=~' is not supported here"),
        ("t_${x in 1}", "the Groovy expression is not understood from 'in' on"),
        ("t_${x /* a */}", "Groovy's '/*' is not supported here"),
        ("t_${X}", "'X' is not the sharding column 'x' as the rule spells it"),
        ("t_${x % }", "the Groovy expression ends too early"),
        ("t_${}", "the Groovy expression ends too early"),
        ("t_${(x % 4}", "the Groovy expression lacks ')' at its end"),
        ("t_${x.substring(1 2)}", "the Groovy expression lacks ',' before '2'"),
        ("t_${x ? 1 : 0}", "a Long as a condition is not supported here (compare it)"),
        ("t_${x > 1 ? 1 : 'a'}", "'? :' with a Integer and a String is not supported here"),
        ("t_${x % 'a'}", "Groovy's Long % String is not supported here"),
        ("t_${x & 1.5}", "Groovy's Long & BigDecimal is not supported here"),
        ("t_${x == 'a' ? 1 : 2}", "Groovy's Long == String is not supported here"),
        ("t_${!x}", "Groovy's ! on a Long is not supported here"),
        ("t_${3G >>> x}", "Groovy's BigInteger >>> Long is not supported here"),
        ("t_${x.padLeft(2, '0')}", "Groovy's Long.padLeft(Integer, String) is not supported here"),
        ("t_${Long.parseLong(x)}", "Groovy's Long.parseLong(Long) is not supported here"),
        ("t_${(int) 'a'}", "a conversion of a String to Integer by a cast is not supported here"),
        ("t_${x as double}", "a conversion to 'double' is not supported here"),
        ("t_${x[0]}", "'[...]' is supported on a String with Integer positions only"),
        ("t_${1.5f * x}", "the number '1.5f' is not supported here (float and double are not exact)"),
        ("t_${x % 010}", "the number '010' is octal in Groovy and refused"),
        ("t_${-2147483648 + x}", "the number '2147483648' is too large here"),
        ("t_${x % 0.0 + 1 / 0}", "the Groovy expression fails for every row: division by zero"),
        ('t_${"$x"}', "a quoted text with '\\' or '$' inside a Groovy expression is not supported"),
        ("t_${String.format('%x', x)}", "String.format is supported with one constant pattern"),
        ("t_${x\n}", "an inline expression"),
        ("t_$", "a '$' in an inline expression that starts neither ${...} nor a column's name"),
        ("t_$x.y", "a '$' in an inline expression that starts neither"),
        ("t_$$x", "a '$' in an inline expression that starts neither"),
        ('t_"${x}', "an inline expression with '\"' outside ${...} is refused"),
        ("t\\_${x}", "an inline expression with '\\\\' outside ${...} is refused"),
        ("t_${x", "an inline expression lacks the closing '}'"),
        ("t_0", "the expression does not use the column 'x'"),
        ("t_${4 % 2}", "the expression does not use the column 'x'"),
        ("<LITERAL>t_0", "expressions of the kind <LITERAL> are not supported"),
        ("t_${" + "(" * 60 + "x" + ")" * 60 + "}", "the Groovy expression is nested too deeply"),
        ("t_${" + "-" * 60 + "x}", "Groovy's '--' is not supported here"),
        ("t_${" + "- " * 60 + "x}", "the Groovy expression is nested too deeply"),
        ("t_${x" + " + x" * 400 + "}", "a Groovy expression of more than 1000 characters is refused"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(expression: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compile_inline(expression, {"x": JavaType.LONG})
    if "\n" in expression:
        assert "over several lines is refused" in str(refused.value)
    else:
        assert message in str(refused.value)


@pytest.mark.parametrize("column", ["owner", "delegate", "it", "UUID", "Math", "a b", "1x", "a-b"])
def test_column_names_that_mean_something_else_to_groovy_are_refused(column: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used in a Groovy expression"):
        compile_inline(f"t_${{{column}}}", {column: JavaType.LONG})


@pytest.mark.parametrize("column", ["in", "default", "class"])
def test_keywords_of_groovy_are_no_column_names(column: str) -> None:
    with pytest.raises(ConfigError, match=f"Groovy's '{column}' is not supported here"):
        compile_inline(f"t_${{{column}}}", {column: JavaType.LONG})


def test_dates_are_not_computed_with() -> None:
    with pytest.raises(ConfigError, match="INLINE does not work on a LocalDate here"):
        compile_inline("t_${x}", {"x": JavaType.LOCAL_DATE})


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("<INTERVAL>P=t", "node expressions of the kind <INTERVAL> are not supported"),
        ("d.t_${(0..3).collect { it }}", "is not supported in a list of nodes"),
        ("d.t_${[0..1, 3]}", "'[0..1, 3]' is not supported in a list of nodes"),
        ("d.t_${3..<3}", "the range 3..<3 is empty"),
        ("d.t_${[08]}", "the number 08 is octal in Groovy and refused (quote it)"),
        ("d.t_${010..012}", "the number 010 is octal in Groovy"),
    ],
)
def test_lists_of_nodes_refuse_by_name(nodes: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        expand_nodes(nodes)
    assert message in str(refused.value)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join), st.sampled_from([JavaType.LONG, JavaType.STRING]))
@example("${99999999999 << 99999999999}", JavaType.LONG)
@example("${x << x << x}", JavaType.LONG)
def test_any_text_is_a_rule_or_a_config_error(text: str, java: JavaType) -> None:
    with contextlib.suppress(ConfigError):
        key, show = compile_inline(text, {"x": java})
        value = 5 if java is JavaType.LONG else "5"
        with contextlib.suppress(ValueError, ArithmeticError):  # what a rule turns into StopError
            assert isinstance(show(key(value)), str)


@settings(deadline=None)
@given(st.text(alphabet="d.t_${}0123'[],<> ac-", max_size=30))
def test_any_list_of_nodes_is_names_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert all(isinstance(name, str) for name in expand_nodes(text))
