"""Conditions on the metadata columns of images, such as `camera != 3 and year > 2020`."""

import ast
import datetime
import operator
import re
import unicodedata

import pyarrow as pa
import pyarrow.compute as pc

from gsp_tf._names import similar

_LONGEST = 10_000
_STRING_OR_QUOTED_NAME = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`([^`]*)`""")
_COMPARISONS = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_REFUSALS = (
    SyntaxError,
    ValueError,
    RecursionError,
    MemoryError,
    OverflowError,
    pa.ArrowException,
)
_GRAMMAR = (
    "A condition compares columns with numbers and texts by ==, !=, <, <=, >, >=, in (...), not in "
    "(...), is None and is not None, and joins comparisons by and, or, not and parentheses"
)


class ConditionError(ValueError):
    """A condition cannot be used, or nothing meets it."""


def rows_where(table: pa.Table, condition: str) -> pa.Array:
    """Whether each row of a table meets a condition.

    The condition is read as Python reads it, but nothing of it is run: comparisons of columns and
    literals, joined by `and`, `or` and `not`, are translated into an expression of Arrow, and
    everything else is refused. A comparison with a missing value is not met, and neither is its
    opposite, as in SQL; `column is None` finds missing values, and NaN is one. A column of dates or
    times is compared with texts such as "2026-05-31". Backticks quote a name that Python would not
    take.
    """
    quoted = {}

    def unquoted(found):
        if found[1] is None:
            return found[0]
        quoted[f"__quoted_{len(quoted)}"] = found[1]
        return f" __quoted_{len(quoted) - 1} "

    try:
        if len(condition) > _LONGEST:
            raise ValueError(f"It has {len(condition):,} characters, more than {_LONGEST:,}")
        text = _STRING_OR_QUOTED_NAME.sub(unquoted, condition).strip()
        met = _Translation(table.schema, quoted).condition(ast.parse(text, mode="eval").body)
        import pyarrow.dataset as ds  # here: it imports pandas, if that is installed

        found = ds.dataset(table).to_table(columns={"met": met})["met"]
    except _REFUSALS as error:
        why = str(error) or type(error).__name__
        if isinstance(error, SyntaxError):
            why = f"{error.msg[0].upper()}{error.msg[1:]}. {_GRAMMAR}"
        raise ConditionError(
            f"The condition {condition[:200]!r} cannot be used: {why.rstrip('.')}."
        ) from error
    return pc.fill_null(found, False).combine_chunks()


class _Translation:
    """Translates the syntax of a condition into an expression of Arrow."""

    def __init__(self, schema: pa.Schema, quoted: dict[str, str]):
        self._types, self._quoted = dict(zip(schema.names, schema.types, strict=True)), quoted
        # Python composes the letters and accents of a name.
        self._composed = {unicodedata.normalize("NFKC", name): name for name in schema.names}

    def condition(self, node: ast.expr) -> pc.Expression:
        match node:
            case ast.BoolOp(op=ast.And()):
                return _joined([self.condition(value) for value in node.values], operator.and_)
            case ast.BoolOp(op=ast.Or()):
                return _joined([self.condition(value) for value in node.values], operator.or_)
            case ast.UnaryOp(op=ast.Not()):
                return ~self.condition(node.operand)
            case ast.Compare():
                sides = [node.left, *node.comparators]
                both = zip(sides, node.ops, sides[1:], strict=False)
                return _joined([self._comparison(*each) for each in both], operator.and_)
            case ast.Name() if pa.types.is_boolean(self._types[self._name(node)]):
                return pc.field(self._name(node))
        raise ValueError(_received(node))

    def _comparison(self, left, relation, right):
        match relation, right:
            case ast.NotIn(), _:
                return ~self._comparison(left, ast.In(), right)
            case ast.IsNot(), _:
                return ~self._comparison(left, ast.Is(), right)
            case ast.In(), ast.Tuple(elts=[_, *_]) | ast.List(elts=[_, *_]) | ast.Set():
                equal = [self._compared(left, operator.eq, value) for value in right.elts]
                return _joined(equal, operator.or_)
            case ast.In(), _:
                raise ValueError("in takes values in parentheses, such as camera in (1, 2)")
            case ast.Is(), ast.Constant(value=None):
                return self._column(left).is_null()
            case ast.Is(), _:
                raise ValueError("is takes None only, such as camera is None")
        return self._compared(left, _COMPARISONS[type(relation)], right)

    def _compared(self, left, compare, right):
        """A comparison of a column with a literal or with another column."""
        if not any(isinstance(side, ast.Name) for side in (left, right)):
            raise ValueError(f"{ast.unparse(left)[:80]!r} is compared with no column. {_GRAMMAR}")
        kinds, values = zip(self._side(left, right), self._side(right, left), strict=True)
        if any(map(pa.types.is_floating, kinds)):  # Arrow would make float32 of some integers
            both = zip(kinds, values, strict=True)
            values = [
                value.cast(pa.float64(), safe=False) if pa.types.is_integer(kind) else value
                for kind, value in both
            ]
        return compare(*values)

    def _side(self, node, other):
        """The type and the expression of a side of a comparison."""
        if isinstance(node, ast.Name):
            return self._types[self._name(node)], self._column(node)
        value = self._literal(node, other)
        return value.type, pc.scalar(value)

    def _column(self, node):
        name = self._name(node)
        column, kind = pc.field(name), self._types[name]
        if pa.types.is_floating(kind):
            column = pc.if_else(column.is_nan(), pc.scalar(pa.scalar(None, kind)), column)
        return column

    def _literal(self, node, column):
        """A number, text or truth value, of the type of the column that it is compared with."""
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError):  # TypeError: {[]} cannot be hashed
            value = node
        name = self._name(column)
        kind = self._types[name]
        if value is None:
            raise ValueError(f"Write {name} is None, or {name} is not None")
        if pa.types.is_temporal(kind) and isinstance(value, str):
            return _time(value, kind)
        if type(value) in _literals(kind):
            return pa.scalar(float(value) if pa.types.is_decimal(kind) else value)
        if not isinstance(value, bool | int | float | str):
            raise ValueError(_received(node))
        received = f"{type(value).__name__} {ast.unparse(node)[:80]}"
        raise ValueError(f"The column {name} holds {kind}, which is not compared with {received}")

    def _name(self, node):
        if not isinstance(node, ast.Name):
            raise ValueError(_received(node))
        name = self._quoted.get(node.id) or self._composed.get(node.id, node.id)
        if name not in self._types:
            there = ", ".join(self._types)
            raise ValueError(
                f"There is no column {name}{similar(name, self._types)} The columns are {there}"
            )
        return name


def _received(node):
    return f"{_GRAMMAR}; received {ast.unparse(node)[:80]!r}"


def _literals(kind):
    """The types of the literals that values of a type are compared with."""
    if pa.types.is_boolean(kind):
        return (bool,)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return (int, float)
    return (str,) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else ()


def _joined(parts, join):
    """Expressions joined as a balanced tree, which stays flat for many of them."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_joined(parts[:middle], join), _joined(parts[middle:], join))


def _time(text, kind):
    """A text as a date or time; one without a zone is in that of the column."""
    if pa.types.is_time(kind):
        return pa.scalar(datetime.time.fromisoformat(text)).cast(kind)
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        if not (pa.types.is_timestamp(kind) and kind.tz):
            raise
        return pc.assume_timezone(pa.scalar(text).cast(pa.timestamp(kind.unit)), kind.tz)
