"""The colours of code: greys, and one hue for what is written out, text and numbers.

Queries, keys, values and weights have hues of their own.
"""

from pygments.style import Style
from pygments.token import (
    Comment,
    Error,
    Generic,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
)


def inks(plain: str, quiet: str, hue: str) -> dict:
    """What is written in which ink.

    Names and signs are plain, words of the language bold, comments quiet.
    """
    bold = (Keyword, Operator.Word, Generic.Heading, Generic.Strong)
    words = dict.fromkeys(bold, f"bold {plain}")
    constants = dict.fromkeys((Keyword.Constant, Literal, Number, String, Generic.Error), hue)
    return {
        **dict.fromkeys((Text, Name, Operator, Punctuation, Error), plain),
        **words,
        **constants,
        Comment: quiet,
        String.Doc: quiet,
        Generic.Prompt: quiet,
        Generic.Output: quiet,
    }


class Day(Style):
    "On a light page."

    background_color = "#f3f3f3"
    styles = inks("#262626", "#5c5c5c", "#9c2455")


class Night(Style):
    "On a dark page."

    background_color = "#1d1f21"
    styles = inks("#dcdcdc", "#a0a0a0", "#f08fb4")
