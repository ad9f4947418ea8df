"""Printer of syntax trees, one statement per line. It satisfies `parse(print_program(p)) == p`."""

from __future__ import annotations

from dataclasses import replace

from cep.core.literals import write_duration
from cep.language.syntax import ast
from cep.plan.formula import print_formula
from cep.rules import pattern_text
from cep.rules.printing import attribute as print_attribute
from cep.rules.printing import (
    declaration,
    print_arguments,
    print_conditions,
    print_expression,
    print_policy,
    print_string,
    record_format,
)
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import StaticRule


def print_program(program: ast.SyntaxTree) -> str:
    return "".join(print_statement(statement) + "\n" for statement in program.statements)


def print_statement(statement: ast.Statement) -> str:
    match statement:
        case ast.Prefix(name, iri):
            return f"PREFIX {name}: <{iri}>"
        case ast.EventDeclaration():
            return f"event {_declared(statement)}."
        case FactDeclaration():
            return f"fact {statement}{record_format(statement.records)}."
        case ast.PolicyStatement(choice):
            assert choice is not None, "it is written"
            return f"policy {print_policy(choice)}."
        case ast.AlertStatement():
            return _alert(statement)
        case ast.EventRule(name, arguments, body, label):
            marked = f"{label}: " if label is not None else ""
            head = pattern_text.event(name, arguments, statement.names).text
            return f"{marked}{head} <- {print_pattern(body)}."
        case ast.FluentDeclaration(name, attributes, value, records):
            text = f"fluent {declaration(name, attributes)}{'' if value is None else f' = {print_attribute(value)}'}"
            if records is None:
                return f"{text}."
            plain = replace(records, name="", attributes=())
            return f"{text}{_declared(plain).removeprefix('()')}."
        case ast.FluentRule(verb, name, arguments, value, body, conditions):
            text = f"{verb} {pattern_text.held(name, arguments, value)}"
            if body is not None:
                return f"{text} <- {print_pattern(body)}."
            return f"{text} WHERE {print_conditions(conditions)}." if conditions else f"{text}."
        case ast.DeadlineStatement(name, arguments, value, becomes, ticks, renewed):
            ends = "ENDS" if becomes is None else f"BECOMES {print_expression(becomes)}"
            text = f"{pattern_text.held(name, arguments, value)} {ends} AFTER {write_duration(ticks)}"
            return f"{text} RENEWED." if renewed else f"{text}."
        case ast.WhileRule(name, arguments, value, boxes, formula):
            before = "".join(f"{box.operator}{box.within.text} " for box in boxes)
            return f"{before}{pattern_text.held(name, arguments, value)} WHILE {print_formula(formula)}."
        case StaticRule(name, arguments, conditions):
            body_text = f" :- {print_conditions(conditions)}" if conditions else ""
            return f"{name}{print_arguments(arguments)}{body_text}."


def _declared(event: ast.EventDeclaration) -> str:
    more = event.further, event.format, event.missing, event.records, event.key, event.when, event.distinct
    return declaration(event.name, event.attributes, event.iri, event.time, event.start, event.end, *more)


def _alert(alert: ast.AlertStatement) -> str:
    text = f"ALERT {alert.name} ON {print_pattern(alert.event)}"
    if alert.conditions:
        text += f" WHERE {print_conditions(alert.conditions)}"
    for word, string in (
        ("SEVERITY", alert.severity),
        ("URGENCY", alert.urgency),
        ("CERTAINTY", alert.certainty),
        ("CATEGORY", alert.category),
    ):
        text += "" if string is None else f" {word} {print_string(string)}"
    for word, template in (("TITLE", alert.title), ("TEXT", alert.text), ("INSTRUCTION", alert.instruction)):
        text += "" if template is None else f" {word} {print_expression(template)}"
    for word, ticks in (("AFTER", alert.after), ("FOR", alert.duration), ("KEEP", alert.keep)):
        text += f" {word} {write_duration(ticks)}" if ticks else ""
    if alert.escalations:
        steps = (f"{print_string(word)} AFTER {write_duration(ticks)}" for word, ticks, _ in alert.escalations)
        text += f" ESCALATE {', '.join(steps)}"
    text += f" REPEAT {write_duration(alert.repeat)}" if alert.repeat else ""
    if alert.keys:
        text += f" KEYED BY {', '.join(key.name for key in alert.keys)}"
    for word, values in (("AT", alert.position), ("RADIUS", (alert.radius,)), ("AREA", (alert.area,))):
        written = ", ".join(print_expression(value) for value in values if value is not None)
        text += f" {word} {written}" if written else ""
    text += "" if alert.inhibitor is None else f" INHIBITED BY {print_pattern(alert.inhibitor)}"
    text += "" if alert.runbook is None else f" RUNBOOK {print_expression(alert.runbook)}"
    if alert.labels:
        text += f" LABELS {', '.join(f'{name}: {print_expression(value)}' for name, value in alert.labels)}"
    return text + "."


def print_pattern(pattern: ast.PatternTree) -> str:
    return pattern.text().text
