"""The parser. It turns the text of a program into a syntax tree, or reports syntax errors with position and hint.

This module, terms.py, patterns.py and declarations.py are a hand-written recursive descent parser. A generated LALR
parser was as fast, but at an error it only knew which tokens are possible next. The messages of this parser say what
the mistake is and what to write instead.

    program     = { statement }
    statement   = "PREFIX" [NAME] ":" IRI
                | "event" name [ "(" [ attribute { "," attribute } ] ")" ]
                      [ when ] [ "AS" iri ] [ "TIME" column { "," column } | "START" column "END" column ]
                      { written | key | when | "DISTINCT" } "."
                | "fact" name "(" argument { "," argument } ")" [ written ] "."
                | "policy" choice "."
                | "PARAM" VARIABLE "=" value [ "IN" ( [ value ] ".." [ value ] | "[" value { "," value } "]" ) ]
                      [ "STEP" value ] "."
                | "ALERT" name "ON" event [ "=" expression ] { clause } "."
                | "fluent" name [ "(" [ attribute { "," attribute } ] ")" ] [ "=" attribute ]
                      [ "AS" iri ] [ "START" column "END" column ] { written } "."
                | ( "initiate" | "terminate" ) held "<-" pattern "."
                | "initially" held [ "WHERE" conditions ] "."
                | held ( "ENDS" | "BECOMES" expression ) "AFTER" duration [ "RENEWED" ] "."
                | { box } held "WHILE" formula "."
                | [ name ":" ] head "<-" pattern "."
                | head ":-" conditions "."
                | head "."
    attribute   = name ":" type [ "?" ]
                  { "in" [ bound ] ".." [ bound ] | "FROM" column | "QUOTED" | "AS" iri | written }
    argument    = name ":" type [ "?" ] { written }
    key         = "KEY" NAME { "," NAME }
    when        = "WHEN" passing { "or" passing }
    passing     = said { ( "," | "and" ) said }
    said        = column ( [ "not" ] "EXISTS" | ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) said_value
                | [ "not" ] "in" "[" said_value { "," said_value } "]" )
    said_value  = [ "-" ] number | STRING | WORD | "true" | "false"
    written     = "FORMAT" ( STRING | [ "epoch" ] ( "s" | "ms" | "us" | "ns" )
                | name [ "(" option { "," option } ")" ] )
                | "ZONE" STRING | "FOLD" ( "earlier" | "later" | "order" ) | "MISSING" missing { "," missing }
    value       = bound | STRING | iri | "true" | "false"
    option      = name ":" ( STRING | number )
    missing     = [ "-" ] number | STRING
    iri         = PREFIXED | "<" IRI ">"
    type        = "int" | "float" | "string" | "bool" | "iri" | "time" | "duration"
    bound       = [ "-" ] ( number [ unit ] | DURATION ) | TIME
    column      = WORD { "[" [ number ] "]" | "." ( WORD | STRING ) } | STRING | iri { "/" iri }
    clause      = "WHERE" conditions | "TITLE" STRING | "TEXT" STRING | "INSTRUCTION" STRING
                | "SEVERITY" STRING | "URGENCY" STRING | "CERTAINTY" STRING | "CATEGORY" STRING
                | "AFTER" duration | "FOR" duration | "KEEP" duration | "KEYED" "BY" VARIABLE { "," VARIABLE }
                | "ESCALATE" STRING "AFTER" duration { "," STRING "AFTER" duration } | "REPEAT" duration
                | "INHIBITED" "BY" event [ "=" expression ] | "RUNBOOK" STRING
                | "LABELS" name ":" label { "," name ":" label }
                | "AT" expression "," expression | "RADIUS" expression | "AREA" expression
    label       = STRING | VARIABLE | [ "-" ] number
    head        = name [ "(" [ expression { "," expression } | named { "," named } ] ")" ]
    held        = name [ "(" [ expression { "," expression } ] ")" ] [ "=" expression ]
    event       = name [ "(" [ expression { "," expression } | named { "," named } ] ")" ]
    named       = name ":" expression
    window      = "LAST" number "EVENTS" | "LAST" duration [ "EVERY" duration ] | "SESSION" duration
                | "EACH" ( duration | number "week" ) [ "ZONE" STRING ]
    result      = VARIABLE "=" aggregate "(" [ [ "distinct" ] expression [ "," number | "," duration ] ] ")"
    choice      = "unrestricted" | ( "recent" | "chronological" ) [ "(" ( "longest" | "shortest" | "by" VARIABLE ) ")" ]
    duration    = number [ unit ] | DURATION
    unit        = "ms" | "s" | "min" | "h" | "d"

    box         = OF_HEAD within
    formula     = ( since { "AND" [ "NOT" ] since } | since { "OR" since } ) { behind }
    behind      = BEHIND ( ">=" | ">" ) duration | "WHERE" conditions | "WITHIN" duration
                | "AGGREGATE" result { "," result } [ "BY" VARIABLE { "," VARIABLE } ]
    since       = unary [ BETWEEN [ within ] unary ]
    unary       = BEFORE [ within ] unary
                | event [ "=" expression ] | "(" formula ")"
    within      = ( "[" | "(" ) duration "," ( duration | "inf" ) ( "]" | ")" )
    OF_HEAD     = a temporal operator that a head can have (cep/core/metric_operators.py)
    BEFORE      = a temporal operator before a formula
    BETWEEN     = a temporal operator between two formulas
    BEHIND      = a temporal operator after a formula

    conditions  = condition { "," condition }
    condition   = expression ( "=" | "==" | "is" | "!=" | "<" | "<=" | ">" | ">=" ) expression
                | expression [ "not" ] "in" "[" expression { "," expression } "]"
                | expression [ "not" ] "between" expression "and" expression
                | [ "not" ] name [ "(" [ expression { "," expression } ] ")" ]
                | [ "not" ] "held" "(" expression [ ( "=" | "!=" ) expression ] "," expression ")"
                | [ "not" ] "{" SPARQL "}"
                | [ "not" ] "(" together { "or" together } ")"
    together    = condition { ( "," | "and" ) condition }
    test        = condition { "and" condition } { "or" condition { "and" condition } }
    expression  = product { ( "+" | "-" ) product }
    product     = signed { ( "*" | "/" | "//" | "mod" ) signed }
    signed      = "-" signed | operand [ "**" signed ]
    operand     = VARIABLE | name | "true" | "false" | number [ unit ] | DURATION | TIME | STRING | IRI | PREFIXED
                | name "(" [ expression { "," expression } ] ")" | "(" expression ")"
                | "if" "(" test "," expression "," expression ")"

The grammar of `pattern` is in patterns.py. A unit is on the line of its number. A prefixed name and the parts of a
PREFIX contain no spaces.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep.core.errors import CepError, Files, Source, Span
from cep.core.suggest import did_you_mean, nearest
from cep.language.syntax import ast, messages
from cep.language.syntax.alerts import alert
from cep.language.syntax.conditions import conditions, test
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.declarations import declaration, end_statement, missing_dot, policy_statement, prefix
from cep.language.syntax.facts import begins_facts, fact_declaration
from cep.language.syntax.fluents import begins_deadline, begins_fluent, deadline, fluent_statement
from cep.language.syntax.formulas import begins_boxes, begins_while, boxed_rule, while_rule
from cep.language.syntax.parameters import begins_parameter, collect, skip
from cep.language.syntax.patterns import condition_hint, goes_by_name, join_hint, named_arguments, pattern
from cep.language.syntax.recovery import Recovery
from cep.language.syntax.terms import COMPARISONS, arguments
from cep.language.syntax.tokens import line_starts
from cep.rules.keywords import BINARY_OPERATORS, POSTFIXES, RESERVED
from cep.rules.parameters import Parameters
from cep.rules.terms import Expression, StaticRule

LONGEST = 1 << 22
"""The maximum length of a program, in characters."""


def too_long(name: str) -> CepError:
    """Create the error for a program that is longer than LONGEST."""
    hint = "if these are facts, read them from a table: `--facts linked=links.csv`"
    return CepError(f"{name}: the program has more than {LONGEST:,} characters", hint=hint, code="syntax")


def parse(
    text: str,
    name: str = "<program>",
    files: Files = (),
    parameters: Parameters | None = None,
    recovery: Recovery | None = None,
) -> ast.SyntaxTree:
    """Read the statements of a program. Raises CepError with all mistakes, unless `recovery` collects them.

    - `name`: the name of the program in messages.
    - `files`: the files of the program. If there are several, messages contain their names instead of `name`.
    - `parameters`: the parameters that the program uses. By default, these are the parameters that its text
      declares.

    The height of each statement's tree is at most HIGHEST, so later passes may be recursive.
    """
    source, mistakes = Source(text, name, files), recovery or Recovery()
    statements = tuple(statement for statement, _, _ in placed(source, parameters, mistakes) if statement is not None)
    tree = ast.SyntaxTree(statements, source)
    if recovery is None and mistakes.errors:
        raise mistakes.refused(tree)
    return tree


def placed(
    source: Source, parameters: Parameters | None = None, recovery: Recovery | None = None
) -> Iterator[tuple[ast.Statement | None, int, int]]:
    """Yield each statement with the offsets of its beginning and end. For a PARAM statement, yield None instead.

    Raises CepError with the first mistake, unless `recovery` collects the mistakes.
    """
    if len(source.text) > LONGEST:
        raise too_long(source.name)
    _refuse_unreadable(source)
    if parameters is None:
        parameters = Parameters()
        collect(source, parameters, recovery)
    cursor = Cursor(source, test, parameters=parameters)
    while cursor.token.kind != "end":
        first = cursor.token
        statement = None
        try:
            if not begins_parameter(cursor):
                statement = _statement(cursor)
            elif recovery is not None and (first.line, first.column) in recovery.skipped:
                recovery.skip(cursor, first)
            else:
                skip(cursor)
        except CepError as error:
            if recovery is None:
                raise
            recovery.refuse(error, cursor, first)
            continue
        yield statement, first.start, cursor.previous.end


def _refuse_unreadable(source: Source) -> None:
    """Refuse characters that a text file cannot contain: NUL, and halves of surrogate pairs."""
    text = source.text
    offset, message = text.find("\0"), "a NUL character is not text"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if offset < 0 or error.start < offset:
            offset, message = error.start, f"the code U+{ord(text[error.start]):04X} is not a character"
    if offset >= 0:
        starts = line_starts(text)
        line = sum(1 for start in starts if start <= offset)
        column = offset - starts[line - 1] + 1
        hint = "programs are UTF-8 text; is this a binary or a UTF-16 file?"
        raise CepError(message, source, Span(line, column, line, column + 1), hint, "syntax")


def _statement(cursor: Cursor) -> ast.Statement:
    token, after = cursor.token, cursor.peek()
    if token.key == "PREFIX" and after.key not in ("(", "<-", ":-", "."):
        return prefix(cursor)
    if token.key == "POLICY":
        return policy_statement(cursor)
    if token.key == "EVENT" and after.key not in ("(", "<-", ":-", ".", ":"):
        return declaration(cursor)
    if begins_fluent(cursor):
        return fluent_statement(cursor)
    if begins_facts(cursor):
        return fact_declaration(cursor)
    if token.key == "ALERT" and after.kind in ("name", "variable", "string"):
        return alert(cursor)
    if begins_boxes(cursor):
        return boxed_rule(cursor)
    return _rule(cursor)


def _rule(cursor: Cursor) -> ast.EventRule | StaticRule | ast.DeadlineStatement | ast.WhileRule:
    """Read a statement that begins with a name: an event rule with or without a label, a deadline, a WHILE rule, a
    static rule or a fact."""
    _refuse_other_words(cursor)
    first = cursor.token
    if first.kind == "prefixed" and first.text[0] != ":":  # `storm:e(X) <- a(X)`: a label
        cursor.split()
        first = cursor.token
    label: str | None = None
    if cursor.peek().key == ":" and first.kind in ("name", "variable"):
        label = cursor.name("a label", messages.LABEL).text
        cursor.advance()
        head = cursor.name("a rule", messages.LABEL)
    else:
        expected = "the name of an event or a predicate" if first.kind == "variable" else "a statement"
        head = cursor.name(expected, _statement_hint(cursor))
    names: tuple[str, ...] | None = None
    values: tuple[Expression, ...] = ()
    if cursor.token.key == "(" and goes_by_name(cursor):
        names, values = named_arguments(cursor)
    elif cursor.token.key == "(":
        values = arguments(cursor)
    head_span = cursor.span(head)
    if label is None and names is None and begins_deadline(cursor):
        return deadline(cursor, first, values)
    if label is None and names is None and begins_while(cursor):
        return while_rule(cursor, first, head, head, values)
    if cursor.accept("<-"):
        body = pattern(cursor)
        _end_event_rule(cursor, body)
        return ast.EventRule(head.text, values, body, label, cursor.span(first), head_span, names)
    if label is not None:
        cursor.fail("`<-`", messages.LABEL)
    if names is not None:
        cursor.fail("`<-`", messages.NAMED_HEAD)
    if cursor.accept(":-"):
        tests = conditions(cursor)
        _end_static_rule(cursor)
        return StaticRule(head.text, values, tests, cursor.span(first))
    if not cursor.accept("."):
        _fail_after_head(cursor)
    return StaticRule(head.text, values, (), cursor.span(first))


def _refuse_other_words(cursor: Cursor) -> None:
    """Refuse a statement that begins with two words if the first one is not the first word of any statement: `evnt a(x:
    int)`."""
    token, after = cursor.token, cursor.peek()
    if token.kind not in ("name", "variable") or after.line > token.line:
        return
    named = after.kind in ("name", "variable", "string") and after.key not in (*_AFTER_HEADS, *RESERVED)
    if named or (after.key == ":" and cursor.peek(2).kind == "iri"):
        hint = did_you_mean(token.text, _FIRST_WORDS)
        if after.text.lower() in _FIRST_WORDS:
            hint = f"leave it out: `{after.text} ...`"
        elif hint is None and cursor.peek(2).key == "(":
            words = ", ".join(f"`{word}`" for word in _FIRST_WORDS)
            hint = f"{messages.EVENT_RULE}; every other statement begins with {words}"
        if hint is not None:
            cursor.stop(f"no statement begins with `{token.text}`", hint)


def _statement_hint(cursor: Cursor) -> str | None:
    token, previous = cursor.token, cursor.previous
    if token.key in POSTFIXES and not _left_over(cursor):
        return f"`{token.text}` does not begin a statement: {messages.BEHIND}"
    if token.key in RESERVED and previous.key == ".":
        return f"the `.` at {previous.line}:{previous.column} ends the rule before this line"
    if token.key in (".", "..") and previous.key == ".":
        return "end a statement with one `.`"
    if token.kind == "number" and previous.key == ".":
        return (
            "for a time limit of 3 s, put the pattern in parentheses, without spaces, `(smoke(R)).3`, "
            "or write `smoke(R) WITHIN 3 s`"
        )
    if token.text in messages.FOREIGN_COMMENTS:
        return "a comment begins with `#` or `%`"
    if token.text == "@":
        return messages.PREFIX
    return messages.EVENT_RULE


def _left_over(cursor: Cursor) -> bool:
    """Return True if the tokens up to the next `.` are probably the rest of a rule that was ended too early by a
    superfluous `.`."""
    ahead = 0
    while (token := cursor.peek(ahead)).kind != "end" and token.key != ".":
        if token.key == "<-":
            return False
        ahead += 1
    return cursor.previous.key == "."


def _fail_after_head(cursor: Cursor) -> None:
    token = cursor.token
    hint = messages.EVENT_RULE
    if token.key == ",":
        hint = f"a rule has one head; {messages.EVENT_RULE}"
    elif token.text.upper() in messages.FOREIGN_ARROWS:
        hint = f"{messages.EVENT_RULE}, a static one {messages.STATIC_EXAMPLE}"
    elif token.kind == "graph":
        hint = f"{messages.GRAPH}; a static rule is {messages.STATIC_EXAMPLE}"
    elif token.key == "-":
        hint = _hyphen_hint(cursor) or hint
    elif missing_dot(cursor):
        end_statement(cursor, "the fact")
    elif (meant := nearest(token.text, _AFTER_HEADS[:-1])) is not None:
        hint = f"did you mean `{meant}`?"
    elif token.kind == "name":
        hint = f"is a `.` missing before `{token.text}`?"
    cursor.fail("`<-`, `:-` or `.`", hint)


_AFTER_HEADS = ("WHILE", "ENDS", "BECOMES", "IF")
_FIRST_WORDS = ("alert", "event", "fact", "fluent", "initially", "initiate", "param", "policy", "prefix", "terminate")
"""The first words of statements that are not rules."""


def _hyphen_hint(cursor: Cursor) -> str | None:
    before, after = cursor.previous, cursor.peek()
    if cursor.token.key == "-" and before.kind == "name" and after.kind in ("name", "variable", "number"):
        return f"a name has letters, digits and `_`: `{before.text}_{after.text}`"
    return None


def _end_event_rule(cursor: Cursor, body: ast.PatternTree) -> None:
    token = cursor.token
    if token.key in (")", "]", "}"):
        hint = f"there is no opening bracket for this `{token.text}`"
    elif token.key in ("<-", ":-"):
        hint = "a rule has one arrow; is a `.` missing after the previous rule?"
    elif meant := condition_hint(cursor, body):
        hint = meant
    elif token.key in COMPARISONS or token.kind == "variable":
        hint = join_hint(cursor) or "conditions follow `WHERE`: `smoke(R, T) WHERE T > 50`"
    elif token.kind == "name":
        missing = f"if a rule begins at `{token.text}`, write `.` before it"
        hint = join_hint(cursor) or f"events are joined by an operator: `smoke(R) SEQ heat(R)`; {missing}"
    else:
        hint = join_hint(cursor) or _hyphen_hint(cursor) or messages.EVENT_RULE
    end_statement(cursor, "the rule", hint, "an operator or `.`")


def _end_static_rule(cursor: Cursor) -> None:
    token = cursor.token
    logic = messages.logic_hint(token)
    if token.key in ("AND", "OR"):
        cursor.fail("`.`", logic)
    if token.key in BINARY_OPERATORS or (token.key in RESERVED and token.key != "NOT"):
        cursor.stop(f"`{token.text}` is for events only, but `:-` defines a static predicate", messages.EVENT_RULE)
    hint = logic or messages.BOTH
    if token.key in (")", "]", "}"):
        hint = f"there is no opening bracket for this `{token.text}`"
    end_statement(cursor, "the rule", hint)
