"""Types of the numbers that commands and recipes take, and a check of numbers within values."""

from numbers import Integral, Real
from types import NoneType
from typing import Any, get_args, get_origin

from jsonargparse.typing import restricted_number_type

from gsp_tf._refusals import FLOAT32_END, described

LARGEST_SIZE = 2**16
_LARGEST = 2**31 - 1  # a product of two, such as epochs and steps, has 64 bits
_FINITE = ("<", FLOAT32_END)

Integer = restricted_number_type("Integer", int, [(">=", -_LARGEST), ("<=", _LARGEST)])
CountOrZero = restricted_number_type("CountOrZero", int, [(">=", 0), ("<=", _LARGEST)])
Count = restricted_number_type("Count", int, [(">=", 1), ("<=", _LARGEST)])
Size = restricted_number_type("Size", int, [(">=", 1), ("<=", LARGEST_SIZE)])
SizeOrZero = restricted_number_type("SizeOrZero", int, [(">=", 0), ("<=", LARGEST_SIZE)])
Capacity = restricted_number_type("Capacity", int, [(">=", 1), ("<=", 2**24)])
Seed = restricted_number_type("Seed", int, [(">=", 0), ("<=", 2**32 - 1)])
Port = restricted_number_type("Port", int, [(">=", 1), ("<=", 2**16 - 1)])
Number = restricted_number_type("Number", float, [(">", -FLOAT32_END), _FINITE])
Positive = restricted_number_type("Positive", float, [(">", 0), _FINITE])
NonNegative = restricted_number_type("NonNegative", float, [(">=", 0), _FINITE])
PositiveShare = restricted_number_type("PositiveShare", float, [(">", 0), ("<=", 1)])
ShareBelowOne = restricted_number_type("ShareBelowOne", float, [(">=", 0), ("<", 1)])


def checked(value: Any, name: str = "", hint: Any = None) -> Any:
    """A value whose numbers, also those in lists and mappings, are in range and of plain types.

    Its type is `hint`; numbers without a type of this module must be an `Integer` or a `Number`.
    A number out of range raises a ValueError with its full name.
    """
    if hasattr(value, "_restrictions"):  # a parsed number, whose range is checked
        return value._type(value)
    if isinstance(value, Real) and not isinstance(value, int | float):  # of NumPy
        value = int(value) if isinstance(value, Integral) else float(value)
    kinds = get_args(hint) or (hint,)
    if isinstance(value, dict):
        of_part = kinds[-1] if get_origin(hint) is dict else hint
        return {key: checked(x, f"{name}.{key}".lstrip("."), of_part) for key, x in value.items()}
    if isinstance(value, list | tuple):
        of_part = kinds[0] if get_origin(hint) in (list, tuple) else hint
        return type(value)(checked(x, f"{name}[{i}]", of_part) for i, x in enumerate(value))
    ranges = [kind for kind in kinds if hasattr(kind, "_restrictions")]
    is_plain = isinstance(value, bool) and (bool in kinds or not ranges)
    if is_plain or not isinstance(value, int | float):
        return value
    is_typed, ranges = bool(ranges), ranges or [Integer, Number]
    kind = next((kind for kind in ranges if isinstance(value, kind._type)), ranges[0])
    try:
        return kind._type(kind(value))
    except (ValueError, OverflowError) as error:
        accepted = described(hint if is_typed and NoneType in kinds else kind)
        raise ValueError(f"{name} must be {accepted}, received {value}.") from error
