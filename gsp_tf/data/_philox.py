"""The numbers that TensorFlow's stateless generator draws on a CPU, without TensorFlow.

J. K. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011: Philox4x32-10.
"""

from collections.abc import Sequence

_WORD = 2**32 - 1


def draw(seed: Sequence[int], count: int) -> list[int]:
    """The words of 32 bits of `tf.random.stateless_uniform((count,), seed, None, None, uint32)`."""
    words = [word for half in map(int, seed) for word in (half & _WORD, half >> 32 & _WORD)]
    mixed = _block(words, (0x3EC8F720, 0x02461E29))
    blocks = [_block((number, 0, *mixed[2:]), mixed[:2]) for number in range(-(-count // 4))]
    return [word for block in blocks for word in block][:count]


def fold_in(seed: Sequence[int], number: int) -> tuple[int, int]:
    """The seed `tf.random.fold_in(seed, number)`, for an int32 number."""
    (word,) = draw(seed, 1)
    return word - (word >> 31 << 32), number  # the word as an int32


def as_fraction(word: int) -> float:
    """The number from [0, 1) that TensorFlow makes of a word."""
    return (word & 0x7FFFFF) / 2**23


def _block(counter, key):
    """Ten rounds of Philox: four random words."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = (
            (second >> 32) ^ counter[1] ^ key[0],
            second & _WORD,
            (first >> 32) ^ counter[3] ^ key[1],
            first & _WORD,
        )
        key = (key[0] + 0x9E3779B9) & _WORD, (key[1] + 0xBB67AE85) & _WORD
    return counter
