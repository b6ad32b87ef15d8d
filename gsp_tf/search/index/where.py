"""Conditions on the metadata columns of images, such as `camera != 3 and year > 2020`."""

import ast
import datetime
import operator
import re
from typing import Any

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
    """A condition cannot be used, or nothing meets it.

    Example:
        >>> rows_where(pa.table({"year": [2020]}), "yaer > 2020")
        Traceback (most recent call last):
            ...
        gsp_tf.search.index.where.ConditionError: ... no column yaer; did you mean year?...
    """


def rows_where(table: pa.Table, condition: str) -> pa.Array:
    """The rows of a table that meet a condition.

    The condition is read as Python reads it, but nothing of it is run: comparisons of columns and
    literals, joined by `and`, `or` and `not`, are translated into an expression of Arrow, and
    everything else is refused. A comparison with a missing value is not met, and neither is its
    opposite, as in SQL; `column is None` finds missing values. A column of dates or times is
    compared with texts such as "2026-05-31". Backticks quote a name that Python would not take.

    Args:
        table: The table.
        condition: The condition.

    Returns:
        booleans `(rows,)`.

    Raises:
        ConditionError: If the condition cannot be read, holds anything else, names a column that
            the table does not have, or compares values of different types.

    Example:
        >>> table = pa.table({"camera": [3, 1, None], "place": ["a", "b", "b"]})
        >>> rows_where(table, "camera != 3 and place in ('a', 'b')").to_pylist()
        [False, True, False]
    """
    names = []

    def unquoted(found):
        if found[1] is None:
            return found[0]
        names.append(found[1])
        return f" __quoted_{len(names) - 1} "

    try:
        if len(condition) > _LONGEST:
            raise ValueError(f"It has {len(condition):,} characters, more than {_LONGEST:,}")
        text = _STRING_OR_QUOTED_NAME.sub(unquoted, condition).strip()
        met = _Translation(table.schema, names).condition(ast.parse(text, mode="eval").body)
        import pyarrow.dataset as ds  # here: it imports pandas, if that is installed

        found = ds.dataset(table).to_table(columns={"met": met})["met"]
    except _REFUSALS as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise ConditionError(
            f"The condition {condition[:200]!r} cannot be used: {why.rstrip('.')}."
        ) from error
    return pc.fill_null(found, False).combine_chunks()


class _Translation:
    """Translates the syntax of a condition into an expression of Arrow."""

    def __init__(self, schema: pa.Schema, quoted: list[str]):
        self._types = dict(zip(schema.names, schema.types, strict=True))
        self._quoted = {f"__quoted_{number}": name for number, name in enumerate(quoted)}

    def condition(self, node: ast.expr) -> pc.Expression:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return _joined([self.condition(value) for value in node.values], join)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.condition(node.operand)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            compared = [
                self._comparison(*between)
                for between in zip(sides, node.ops, sides[1:], strict=False)
            ]
            return _joined(compared, operator.and_)
        if isinstance(node, ast.Name) and pa.types.is_boolean(self._type(node)):
            return pc.field(self._name(node))
        raise ValueError(f"{_GRAMMAR}; received {ast.unparse(node)[:80]!r}")

    def _comparison(self, left, relation, right):
        if isinstance(relation, ast.In | ast.NotIn):
            if not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
                raise ValueError("in takes values in parentheses, such as camera in (1, 2)")
            found = _joined(
                [self._compared(left, operator.eq, v) for v in right.elts], operator.or_
            )
            return found if isinstance(relation, ast.In) else ~found
        if isinstance(relation, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise ValueError("is takes None only, such as camera is None")
            missing = pc.field(self._name(left)).is_null()
            return missing if isinstance(relation, ast.Is) else ~missing
        return self._compared(left, _COMPARISONS[type(relation)], right)

    def _compared(self, left, compare, right):
        """A comparison of a column with a literal or with another column."""
        columns = [isinstance(side, ast.Name) for side in (left, right)]
        if not any(columns):
            raise ValueError(f"{ast.unparse(left)[:80]!r} is compared with no column. {_GRAMMAR}")
        if all(columns):
            return compare(pc.field(self._name(left)), pc.field(self._name(right)))
        if columns[0]:
            return compare(pc.field(self._name(left)), self._literal(right, left))
        return compare(self._literal(left, right), pc.field(self._name(right)))

    def _literal(self, node, column):
        """A number, text or truth value, of the type of the column that it is compared with."""
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError):  # TypeError: {[]} cannot be hashed
            value = node
        kind, name = self._type(column), self._name(column)
        if value is None:
            raise ValueError(f"Write {name} is None, or {name} is not None")
        if pa.types.is_temporal(kind) and isinstance(value, str):
            return pc.scalar(_time(value, kind))
        if type(value) in _literals(kind):
            return pc.scalar(float(value) if pa.types.is_decimal(kind) else value)
        received = f"{type(value).__name__} {ast.unparse(node)[:80]}"
        if not isinstance(value, bool | int | float | str):
            raise ValueError(f"{_GRAMMAR}; received {ast.unparse(node)[:80]!r}")
        raise ValueError(f"The column {name} holds {kind}, which is not compared with {received}")

    def _name(self, node):
        if not isinstance(node, ast.Name):
            raise ValueError(f"{_GRAMMAR}; received {ast.unparse(node)[:80]!r}")
        name = self._quoted.get(node.id, node.id)
        if name not in self._types:
            there = ", ".join(self._types)
            raise ValueError(
                f"There is no column {name}{similar(name, self._types)} The columns are {there}"
            )
        return name

    def _type(self, node):
        return self._types[self._name(node)]


def _literals(kind):
    """The types of the literals that values of a type are compared with."""
    if pa.types.is_boolean(kind):
        return (bool,)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return (int, float)
    return (str,) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else ()


def _joined(parts: list[Any], join) -> Any:
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
