"""Text to preference, by a tokenizer and recursive descent: nothing is ever evaluated as Python.

The grammar::

    text        :=  statement ((";" | "," | newline) statement)*
    statement   :=  ["subject to"] sum ("<=" | ">=" | "==" | "=") sum ["(" "margin" number "standard errors" ")"]
                 |  "minimize" sum ("," sum)*
                 |  "ray" vector ["through" vector] ["at_most"]  |  "weights" vector
    vector      :=  number+  |  "(" number ("," number)* ")"
    sum         :=  product (("+" | "-") product)*
    product     :=  factor (("*" | "/") factor)*
    factor      :=  ("+" | "-")* (number | name | name "[" number "]" | "(" sum ")"
                     | ("abs" | "log" | "mean" | "sum") "(" sum ")" | level)
    level       :=  ("ramp" | "cosine") "(" number "," number "," "steps" "=" number ["," "after" "=" number] ")"
                 |  "piecewise" "(" number ("," "(" number "," number ")")+ ")"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from ferero.errors import FereroError, InputError, UnknownNameError
from ferero.preference._expression import AbsExpression, Constraint, Expression, LinearForm, Rewritten
from ferero.preference._family import FamilyExpression
from ferero.preference._objectives import Objectives, as_objectives, did_you_mean
from ferero.preference._schedule import MovingLevel, cosine, piecewise, ramp

__all__ = ["ParsedText", "parse_text"]

_DEEPEST = 100
_TOKEN = re.compile(
    r"(?P<space>[^\S\n]+)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<relation><=|>=|==|=|<|>)"
    r"|(?P<symbol>[-+*/()\[\]])"
    r"|(?P<separator>[;,\n])"
)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Constraint]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "=": operator.eq,
}


def _log(value: Any) -> Any:
    if not hasattr(value, "log"):
        raise InputError(f"log: expected a linear expression, found '{value}'; move the log inside")
    return value.log()


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"abs": abs, "log": _log}
_BETWEEN: dict[str, Callable[..., MovingLevel]] = {"ramp": ramp, "cosine": cosine}


@dataclass
class ParsedText:
    """The statements of a text.

    Args:
        names: the names found, in order of first appearance.
        minimize: the expressions of `minimize` clauses.
        constraints: the constraints, in order.
        ray: the vector of a `ray` clause.
        through: its starting point.
        at_most: whether the losses may be below it.
        weights: the vector of a `weights` clause.
    """

    names: list[str] = field(default_factory=list)
    minimize: list[Expression] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    ray: list[float] | None = None
    through: list[float] | None = None
    at_most: bool = False
    weights: list[float] | None = None

    def objectives(self) -> Objectives:
        """The names found; f1..fm beside a ray or weights over m losses that need no others.

        Raises:
            InputError: when the text has neither names nor a vector.
        """
        vector = self.ray if self.ray is not None else self.weights
        if vector is not None:
            default = as_objectives(None, len(vector))
            if set(self.names) <= set(default.names):
                return default
        if not self.names:
            raise InputError("text: expected a constraint, a ray or something to minimize, found no names")
        return Objectives(tuple(self.names))

    def minimize_over(self, objectives: Objectives) -> list[Expression] | None:
        """The expressions to minimise; None for all objectives in their order, which is the default."""
        is_default = [expression.form for expression in self.minimize] == [e.form for e in objectives]
        return None if is_default or not self.minimize else self.minimize


def parse_text(text: str, names: Objectives | None = None) -> ParsedText:
    """Read a preference's text.

    Args:
        text: as the module's grammar says.
        names: the only names allowed; None allows any.

    Returns:
        The parts found.

    Raises:
        InputError: with the text and a caret under the place that could not be read.
        UnknownNameError: the same, for a name that is none of `names`.
    """
    if not isinstance(text, str):
        raise InputError(f"text: expected a string, found {text!r} ({type(text).__name__})")
    return _Parser(text, names).parse()


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, names: Objectives | None) -> None:
        self.text = text
        self.known = names
        self.families = frozenset(family.name for family in names.families) if names is not None else frozenset()
        self.allowed = frozenset(names.names) | self.families if names is not None else frozenset()
        self.found: set[str] = set()
        self.parsed = ParsedText()
        self.tokens = _tokenize(text)
        self.position = 0
        self.depth = 0

    # tokens -------------------------------------------------------------------------------------------

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    @property
    def following(self) -> _Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def _take(self) -> _Token:
        token = self.token
        self.position += 1
        return token

    def _expect(self, symbol: str) -> None:
        if self.token.text != symbol:
            self._fail(f"expected '{symbol}'{self._found()}")
        self._take()

    def _found(self) -> str:
        return ", found the end" if self.token.kind == "end" else f", found {self.token.text!r}"

    def _fail(self, message: str, family: type[FereroError] = InputError) -> NoReturn:
        _fail_at(self.text, self.token.start, message, family)

    # statements ---------------------------------------------------------------------------------------

    def parse(self) -> ParsedText:
        while self.token.kind != "end":
            if self.token.kind == "separator":
                self._take()
                continue
            self._statement()
            if self.token.kind not in {"separator", "end"}:
                self._fail(self._unfinished())
        return self.parsed

    def _unfinished(self) -> str:
        if self.token.kind == "relation":
            return "a chain of comparisons is not supported; write two constraints separated by ';'"
        return f"expected an operator, or ';' before the next constraint{self._found()}"

    def _statement(self) -> None:
        if self.token.text == "subject" and self.following.text == "to":
            self.position += 2
        if self._at_keyword("minimize"):
            self._minimize()
        elif self._at_vector("ray"):
            self._ray()
        elif self._at_vector("weights"):
            self._once("weights", self.parsed.weights or self.parsed.ray)
            self.parsed.weights = self._vector()
        else:
            self._constraint(self._sum())

    def _at_keyword(self, word: str) -> bool:
        return self.token.text == word and word not in self.allowed

    def _at_vector(self, word: str) -> bool:
        starts = self.following.kind == "number" or self.following.text in {"(", "-"}
        return self._at_keyword(word) and starts

    def _once(self, word: str, earlier: list[float] | None) -> None:
        if earlier is not None:
            self._fail(f"a second line in one preference: '{word}' after another ray or weights")
        self._take()

    def _ray(self) -> None:
        self._once("ray", self.parsed.ray or self.parsed.weights)
        self.parsed.ray = self._vector()
        if self.token.text == "through":
            self._take()
            self.parsed.through = self._vector()
        if self.token.text == "at_most":
            self._take()
            self.parsed.at_most = True

    def _minimize(self) -> None:
        """One sum or more; a sum behind a comma that is compared with something starts the constraints."""
        self._take()
        self._add_minimized(self._sum())
        while self.token.text == ",":
            self._take()
            expression = self._sum()
            if self.token.kind == "relation":
                self._constraint(expression)
                return
            self._add_minimized(expression)

    def _add_minimized(self, expression: Any) -> None:
        if isinstance(expression, FamilyExpression):
            self.parsed.minimize += list(expression)
            return
        if isinstance(expression, MovingLevel):
            self._fail(f"'{expression}' cannot be minimised: it is a level; compare an expression with it")
        if isinstance(expression, AbsExpression | Rewritten):
            self._fail(f"'{expression}' cannot be minimised: it is not linear; bound it, '{expression} <= c'")
        self.parsed.minimize.append(expression)

    def _constraint(self, left: Any) -> None:
        token = self.token
        if token.kind != "relation":
            hint = "" if token.kind in {"separator", "end"} else ", or an operator"
            self._fail(f"expected '<=', '>=' or '=='{hint}{self._found()}")
        if token.text in {"<", ">"}:
            self._fail(f"strict inequalities are not supported; write '{token.text}='")
        self._take()
        compare, right = _COMPARISONS[token.text], self._sum()
        constraint = self._at(token, lambda: compare(left, right))
        has_margin = self.token.text == "(" and self.following.text == "margin"
        self.parsed.constraints.append(self._with_margin(constraint) if has_margin else constraint)

    def _with_margin(self, constraint: Constraint) -> Constraint:
        """The end `(margin z standard errors)`, as constraints print it."""
        place = self._take()
        self._expect("margin")
        z = self._number()
        self._expect("standard")
        self._expect("error" if self.token.text == "error" else "errors")
        self._expect(")")
        made: Constraint = self._at(place, lambda: constraint.with_margin(z))
        return made

    def _vector(self) -> list[float]:
        if self.token.text != "(":
            numbers = [self._number()]
            while self.token.kind == "number" or self.token.text == "-":
                numbers.append(self._number())
            return numbers
        self._take()
        numbers = [self._number()]
        while self.token.text == ",":
            self._take()
            numbers.append(self._number())
        self._expect(")")
        return numbers

    def _number(self) -> float:
        sign = 1.0
        while self.token.text == "-":
            self._take()
            sign = -sign
        if self.token.kind != "number":
            self._fail(f"expected a number{self._found()}")
        return sign * float(self._take().text)

    # expressions --------------------------------------------------------------------------------------

    def _sum(self) -> Any:
        return self._chain(self._product, {"+", "-"})

    def _product(self) -> Any:
        return self._chain(self._factor, {"*", "/"})

    def _chain(self, operand: Callable[[], Any], symbols: set[str]) -> Any:
        value = operand()
        while self.token.text in symbols:
            token = self._take()
            left, right = value, operand()
            value = self._at(token, partial(_OPERATORS[token.text], left, right))
        return value

    def _factor(self) -> Any:
        sign = self.token
        negative = False
        while self.token.text in {"+", "-"}:
            negative ^= self._take().text == "-"
        value = self._atom()
        return self._at(sign, lambda: -value) if negative else value

    def _atom(self) -> Any:
        if self.token.kind == "number":
            return self._at(self.token, lambda: Expression(LinearForm()) + float(self._take().text))
        if self.token.kind == "name":
            return self._call() if self.following.text == "(" else self._name()
        if self.token.text == "(":
            return self._group()
        return self._fail(f"expected a number, a name or '('{self._found()}")

    def _call(self) -> Any:
        """What stands before a bracket: a function, a level that moves, or a name, whose product this would be."""
        if self.token.text in _FUNCTIONS:
            place = self._take()
            inside = self._group()
            return self._at(place, lambda: _FUNCTIONS[place.text](inside))
        if self.token.text in {*_BETWEEN, "piecewise"}:
            return self._level()
        if self.token.text in {"mean", "sum"} and self.token.text not in self.allowed:
            return self._over_members()
        return self._name()

    def _level(self) -> Any:
        """A level that moves, as schedules print themselves."""
        place = self._take()
        self._expect("(")
        start = self._number()
        if place.text == "piecewise":
            jumps = []
            while self.token.text == ",":
                self._take()
                jumps.append(self._jump())
            self._expect(")")
            return self._at(place, lambda: piecewise(start, *jumps))
        self._expect(",")
        end = self._number()
        options = {}
        while self.token.text == ",":
            self._take()
            name = self.token.text
            if name not in {"steps", "after"} or name in options:
                self._fail(f"expected 'steps=' or 'after=', each once{self._found()}")
            self._take()
            self._expect("=")
            options[name] = self._number()
        self._expect(")")
        if "steps" not in options:
            _fail_at(self.text, place.start, f"{place.text}: expected steps=..., found none; say how many it takes")
        return self._at(place, lambda: _BETWEEN[place.text](start, end, **options))

    def _jump(self) -> tuple[float, float]:
        self._expect("(")
        step = self._number()
        self._expect(",")
        level = self._number()
        self._expect(")")
        return step, level

    def _group(self) -> Any:
        self._expect("(")
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} parentheses inside each other; simplify the expression")
        value = self._sum()
        self._expect(")")
        self.depth -= 1
        return value

    def _over_members(self) -> Expression:
        """`mean(family)` or `sum(family)`."""
        place = self._take()
        inside = self._group()
        if not isinstance(inside, FamilyExpression):
            self.position = self.tokens.index(place)
            self._fail(f"{place.text}(...) takes a family, '{inside}' is a single expression; leave {place.text} out")
        return inside.mean() if place.text == "mean" else inside.sum()

    def _family(self, name: str) -> Expression:
        """A family, or one of its members, `group[3]`."""
        assert self.known is not None
        place = self._take()
        if self.token.text != "[":
            return self.known[name]
        self._take()
        number = self._number()
        self._expect("]")
        if not number.is_integer():
            self.position = self.tokens.index(place)
            self._fail(f"expected the number of a member of '{name}', found {number}")
        family: Any = self.known[name]
        try:
            member: Expression = family[int(number)]
        except UnknownNameError as error:
            self.position = self.tokens.index(place)
            self._fail(str(error), UnknownNameError)
        return member

    def _name(self) -> Expression:
        name = self.token.text
        if name in self.families:
            return self._family(name)
        if self.known is not None and name not in self.allowed:
            plain = [known for known in self.known.names if known.isidentifier()]
            unknown = f"'{name}' is none of the objectives{did_you_mean(name, [*plain, *sorted(self.families)])}"
            self._fail(unknown, UnknownNameError)
        if name not in self.found:
            self.found.add(name)
            self.parsed.names.append(name)
        self._take()
        return Expression(LinearForm(((name, 1.0),)))

    def _at(self, token: _Token, action: Callable[[], Any]) -> Any:
        """Run `action`; what it refuses is reported at `token`."""
        try:
            return action()
        except InputError as error:
            _fail_at(self.text, token.start, str(error))


@dataclass(frozen=True)
class _Token:
    """A piece of the text.

    Args:
        kind: number, name, relation, symbol, separator or end.
        text: the characters.
        start: where they begin.
    """

    kind: str
    text: str
    start: int


def _tokenize(text: str) -> list[_Token]:
    """The tokens of `text` and an end token; spaces, and new lines inside parentheses, are left out.

    Raises:
        InputError: at a character that begins no token.
    """
    tokens, start, depth = [], 0, 0
    while start < len(text):
        match = _TOKEN.match(text, start)
        if match is None or match.lastgroup is None:
            _fail_at(text, start, f"unexpected '{text[start]}'")
        token = _Token(match.lastgroup, match.group(), start)
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.kind != "space" and not (token.text == "\n" and depth > 0):
            tokens.append(token)
        start = match.end()
    return [*tokens, _Token("end", "", len(text))]


def _fail_at(text: str, start: int, message: str, family: type[FereroError] = InputError) -> NoReturn:
    """Raise `family` with the message, the line of `text` and a caret under `start`."""
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].split("\n", 1)[0]
    raise family(f"text: {message}\n  {line}\n  {' ' * (start - line_start)}^")
