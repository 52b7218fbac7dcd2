"""A saved Vega-Lite chart as HTML: a caption, the data as a table,
and the chart in Vega for the browser to draw.

The table stands in the chart's place until the chart is drawn, and then folds up below it. So the
page reads whole without JavaScript, and a person who cannot see the chart has its numbers. A chart
with controls holds the numbers of all its states, and says itself (`usermeta`) how they are best
read: one table for each position of its controls.
"""

import csv
import functools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import vl_convert

# What was drawn before: half of the time of a build goes into drawing.
KEPT = Path(__file__).resolve().parents[1] / "_build/charts"
DRAWN_BY = Path(__file__).read_bytes() + vl_convert.__version__.encode()
# The one that fits the Vega in vl_convert; it draws the specs of Altair 5.5 (5.20) as they are.
VEGA_LITE = "6.4"
NARROW = 46 * 16  # pixels; as in book.css
# Everything that is not data is drawn in currentColor: CSS gives it the page's colour,
# in light and dark. The font is the page's.
INK = "currentColor"
LOOK = {
    # book.js makes one picture of it, with a description: those of single marks would not be heard.
    "aria": False,
    "background": "transparent",
    "font": "-apple-system, BlinkMacSystemFont, Segoe UI, Helvetica, Arial, sans-serif",
    "axis": {
        "domainColor": INK,
        "domainOpacity": 0.4,
        "tickColor": INK,
        "tickOpacity": 0.4,
        "gridColor": INK,
        "gridOpacity": 0.12,
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "labelLimit": 240,
        "maxExtent": 250,  # the title stands beside the longest label
    },
    "header": {"labelColor": INK, "titleColor": INK},
    "legend": {"labelColor": INK, "titleColor": INK},
    "text": {"color": INK},
    "rule": {"color": INK},
    "title": {"color": INK},
    "view": {"stroke": None},
}
# Pixels across that a chart takes at most on a wide page, and on one of 390 pixels: fonts differ.
COLUMN, PHONE = 690, 345
PRINT = 13  # pixels
CELL = 88, 56  # pixels; cells of a heatmap grow as far as this
TALL = 480  # pixels; nor do they grow more where the chart is as high
WIDER = 1.2  # what they grow at least on a wide page, for whoever can scroll
IN_A_LINE = (5, 2)  # names in a line of a legend, on a wide page and on a phone
AT_MOST = 50  # rows and columns of a table; a longer axis is thinned out
Record = dict[str, Any]


class View(NamedTuple):
    "One mark of a chart, with what it inherits from the layers and facets around it."

    data: list[Record]
    channels: dict[str, dict]  # x, y, color, ... → {field, type, title}
    facets: list[dict]


def views(
    spec: Record, sets: Record, data: Any = None, channels: Record | None = None, facets: tuple = ()
) -> Iterator[View]:
    "Every mark in `spec`, however deep."
    data = spec.get("data", data)
    channels = {**(channels or {}), **spec.get("encoding", {})}
    if facet := spec.get("facet"):
        facets = (*facets, *([facet] if "field" in facet else facet.values()))
    parts = [
        part for key in ("layer", "concat", "hconcat", "vconcat") for part in spec.get(key, [])
    ]
    for part in [spec["spec"]] if "spec" in spec else parts:
        yield from views(part, sets, data, channels, facets)
    if "mark" in spec and data:
        records = data["values"] if "values" in data else sets[data["name"]]
        fields = records[0].keys() if records else ()
        shown = {
            c: e for c, e in channels.items() if isinstance(e, dict) and e.get("field") in fields
        }
        yield View(
            records, shown, [*facets, *(shown[c] for c in ("facet", "row", "column") if c in shown)]
        )


def first_state(spec: Record, records: list[Record]) -> list[Record]:
    "Those of `records` that a chart with controls shows before they are moved."
    start = {param["name"]: param["value"] for param in spec.get("params", []) if "value" in param}
    return [r for r in records if all(r.get(name, value) == value for name, value in start.items())]


def name(channel: dict) -> str:
    "What a reader calls this column."
    return escape(text(channel.get("title")) or channel["field"])


def number(value: Any) -> str:
    "A cell's text."
    if value is None:
        return "forbidden"
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def thin(values: list) -> tuple[list, str]:
    "Evenly spaced ones of `values`, not too many, and a note that says so."
    step = math.ceil(len(values) / AT_MOST)
    return values[::step], f"1 of every {step} is listed" if step > 1 else ""


def tag(kind: str, content: str, attributes: str = "") -> str:
    "An HTML element."
    return f"<{kind}{attributes}>{content}</{kind}>"


def html_table(captions: list[str], head: list[str], body: Iterable[str]) -> str:
    "A table from its header cells and the insides of its lines."
    lines = "".join(tag("tr", line) + "\n" for line in body)
    header = tag("thead", tag("tr", "".join(tag("th", h, ' scope="col"') for h in head)))
    caption = ": ".join(filter(None, captions))
    return tag(
        "table", f"{tag('caption', caption) if caption else ''}{header}\n{tag('tbody', lines)}"
    )


def grid(
    records: list[Record], row: dict, col: dict, value: dict, caption: str, shades: bool
) -> str:
    """A table with one line per value of `row` and one column per value of `col`,
    in order of appearance.
    """
    by_place = {(r[row["field"]], r[col["field"]]): r[value["field"]] for r in records}
    (rows, fewer_rows), (cols, fewer_cols) = (
        thin(list(dict.fromkeys(keys))) for keys in zip(*by_place)
    )
    known = [v for v in by_place.values() if isinstance(v, (int, float))]
    low, span = min(known, default=0), (max(known, default=0) - min(known, default=0)) or 1

    def cell(r: Any, c: Any) -> str:
        v = by_place.get((r, c), "")
        share = (
            f' style="--share:{(v - low) / span:.2f}"'
            if shades and isinstance(v, (int, float))
            else ""
        )
        return tag("td", number(v), share)

    corner = f"{name(row)} \\ {name(col)}" if shades else name(row)
    return html_table(
        [caption, fewer_rows or fewer_cols],
        [corner, *map(number, cols)],
        (tag("th", number(r), ' scope="row"') + "".join(cell(r, c) for c in cols) for r in rows),
    )


def listing(records: list[Record], columns: list[dict], caption: str) -> str:
    "A table with one line per record."
    fields = [c["field"] for c in columns]
    rows, fewer = thin(records)
    return html_table(
        [caption, fewer],
        [name(c) for c in columns],
        ("".join(tag("td", number(r.get(f, ""))) for f in fields) for r in rows),
    )


def table(view: View, records: list[Record], caption: str = "") -> str:
    "The data behind one mark, in the form that is read most easily."
    if view.facets:
        facet, rest = view.facets[0], view._replace(facets=view.facets[1:])
        groups: dict[Any, list[Record]] = {}
        for record in records:
            groups.setdefault(record[facet["field"]], []).append(record)
        return "\n".join(
            table(rest, group, f"{caption} {number(g)}".strip()) for g, group in groups.items()
        )
    ch = view.channels
    # a heatmap prints what it paints
    x, y, colour = ch.get("x"), ch.get("y"), ch.get("color") or ch.get("text")
    if x and y and colour:
        kinds = [c.get("type") for c in (x, y, colour)]
        if kinds[2] == "quantitative" and "quantitative" not in kinds[:2]:
            return grid(records, y, x, colour, caption, shades=True)  # a heatmap
        if kinds[2] != "quantitative" and kinds[1] == "quantitative":
            return grid(records, x, colour, y, caption, shades=False)  # one line per series
    names_first = sorted(ch.values(), key=lambda c: c.get("type") == "quantitative")
    # of two that read a field, the one with a title
    titled = {c["field"]: c for c in sorted(names_first, key=lambda c: "title" in c)}
    return listing(
        records, list({c["field"]: titled[c["field"]] for c in names_first}.values()), caption
    )


def tables(spec: Record) -> Iterator[str]:
    "The tables of a chart: those that it asks for, or one for the data of each of its marks."
    sets = spec.get("datasets", {})
    if wanted := spec.get("usermeta", {}).get("tables"):
        for one in wanted:
            yield from asked_for([r for name in one["data"] for r in sets[name]], one)
        return
    # marks that are layered share their data: one table for all of them
    shown: dict[str, View] = {}
    for view in views(spec, sets):
        first = shown.setdefault(data := json.dumps(view.data), view)
        shown[data] = first._replace(
            channels=first.channels
            | {c: e for c, e in view.channels.items() if c not in first.channels}
        )
    yield from (table(view, view.data) for view in shown.values() if view.data)


def asked_for(records: list[Record], wanted: Record) -> Iterator[str]:
    """Tables of `records`, one for each combination of the fields in `by`;
    a value counts only where the field in `where` is true.
    """
    groups: dict[tuple, list[Record]] = {}
    for record in records:
        # a 0 that is forbidden
        shown = (
            record if record.get(wanted.get("where"), True) else record | {wanted["value"]: None}
        )
        groups.setdefault(tuple(record[field] for field in wanted.get("by", [])), []).append(shown)
    for values, group in groups.items():
        caption = ", ".join(map(number, values))
        if "row" in wanted:
            row, col, value = ({"field": wanted[key]} for key in ("row", "col", "value"))
            yield grid(group, row, col, value, caption, shades=False)
        else:
            yield listing(group, [{"field": field} for field in wanted["columns"]], caption)


def stacked(spec: Any) -> Any:
    "The chart for a narrow page: what stands side by side in a `concat` stands in one column."
    if isinstance(spec, list):
        return [stacked(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        **{k: stacked(v) for k, v in spec.items() if k != "datasets"},
        **({"columns": 1} if "concat" in spec else {}),
        **({"datasets": spec["datasets"]} if "datasets" in spec else {}),
    }


def grown(spec: Any, least: float, wide: float, high: float) -> Any:
    """The chart with print that can be read, and its cells so many times as wide,
    but for this many pixels, and as high.
    """
    if isinstance(spec, list):
        return [grown(part, least, wide, high) for part in spec]
    if not isinstance(spec, dict):
        return spec
    found = {
        k: v if k in ("datasets", "values") else grown(v, least, wide, high)
        for k, v in spec.items()
    }
    if (size := spec.get("fontSize")) and isinstance(size, (int, float)):
        found["fontSize"] = max(size, PRINT)
    for side, times, low, most in zip(("width", "height"), (wide, high), (least, math.inf), CELL):
        if isinstance(spec.get(side), dict):
            step = spec[side]["step"]
            found[side] = {"step": max(min(step, low), min(most, math.floor(times * step)))}
    return found


def across(words: str) -> float:
    "About how many pixels a label takes: the font is not known here."
    return PRINT * sum(
        0.32 if letter in "fijlrt.,:;'! ()" else 0.85 if letter in "mwMW" else 0.6
        for letter in words
    )


def narrowest(spec: Record) -> float:
    "How narrow a cell may be for the numbers that are printed in it."
    found = []
    for view in views(spec, spec.get("datasets", {})):
        if printed := view.channels.get("text"):
            values = [
                record[printed["field"]]
                for record in view.data
                if record.get(printed["field"]) is not None
            ]
            found += [across(format(value, printed.get("format", ""))) for value in values]
    return max(22, 8 + max(found, default=math.inf))


def turned(spec: Any, names: dict[str, list[str]], step: float = math.inf) -> Any:
    """The chart with the labels below or above its columns turned,
    where one does not fit its column.
    """
    if isinstance(spec, list):
        return [turned(part, names, step) for part in spec]
    if not isinstance(spec, dict):
        return spec
    if "width" in spec:
        step = spec["width"]["step"] if isinstance(spec["width"], dict) else math.inf
    found = {
        k: v if k in ("datasets", "values") else turned(v, names, step) for k, v in spec.items()
    }
    axis = spec.get("axis")
    if isinstance(axis, dict) and axis.get("labelAngle") == 0:
        labels = spec.get("scale", {}).get("domain") or names.get(spec["field"], [])
        top = axis.get("orient") == "top"
        longest = max(map(across, labels), default=0)
        found["axis"] = axis | (
            {"labelAngle": 0, "labelAlign": "center", "labelBaseline": "bottom" if top else "top"}
            if longest < step - 3
            else {
                "labelAngle": -90,
                "labelAlign": "left" if top else "right",
                "labelBaseline": "middle",
                # room for the labels of every state
                **({"minExtent": math.ceil(longest)} if "minExtent" in axis else {}),
            }
        )
    return found


def labels(spec: Any) -> dict[str, list[str]]:
    "All words in the data of a chart, by their field."
    found: dict[str, dict[str, None]] = {}
    for records in [
        *spec.get("datasets", {}).values(),
        *(view.data for view in views(spec, spec.get("datasets", {}))),
    ]:
        for record in records:
            for field, value in record.items():
                if isinstance(value, str):
                    found.setdefault(field, {})[value] = None
    return {field: list(values) for field, values in found.items()}


def fills(spec: Record) -> bool:
    """Whether the chart is one plot with a width of its own,
    which can as well take the width of its place.
    """
    return (
        isinstance(spec.get("width"), (int, float))
        and not {"concat", "hconcat", "vconcat", "facet"} & spec.keys()
    )


def fitted(spec: Record) -> Record:
    """A chart that fills its place, axes and all;
    numbers printed beside bars need room behind the longest.
    """
    if not fills(spec):
        return spec
    printed = any(layer["mark"]["type"] == "text" for layer in spec.get("layer", []))
    return {
        **spec,
        "width": COLUMN,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": 50 if printed else 5},
    }


@functools.lru_cache(maxsize=16)  # its height is asked for after the widths of all its forms
def drawn(vega: str) -> str:
    "The chart as a picture."
    return vl_convert.vega_to_svg(vega)


def size(vega: Record, side: str) -> float:
    "How many pixels wide or high the chart is: asked of Vega itself."
    return float(re.findall(rf'<svg[^>]* {side}="([\d.]+)"', drawn(json.dumps(vega)))[0])


def height(vega: Record) -> int:
    "How many pixels to keep free for the chart: a little more than it takes, since fonts differ."
    return 10 * math.ceil((size(vega, "height") + 5) / 10)


def filling(spec: Record, room: float, least: float, legend: int) -> Record:
    """The chart in Vega, its cells grown until it fills so many pixels across,
    or shrunk as far as their print allows.
    """
    names = labels(spec)
    low = narrowest(spec)
    made = lambda *times: in_vega(turned(grown(spec, low, *times), names), legend)
    if fills(spec) or (one := made(1, 1)) == made(1.5, 1):  # no heatmap
        return made(least, least)
    more = made(1.5, 1.5)
    sides = [[size(vega, side) for vega in (one, more)] for side in ("width", "height")]
    wide, high = (
        1 + 0.5 * max(0, limit - a) / max(1, b - a) for limit, (a, b) in zip((room, TALL), sides)
    )
    while (
        now := size(found := made(wide, max(1, min(wide, high), least)), "width")
    ) > room and wide > 0.4:
        wide = min(wide - 0.02, wide * room / now)
    return found


def controls(spec: Record) -> Iterator[Record]:
    """What a reader can move or choose in the chart: Vega-Lite's bindings,
    in the order in which they are drawn.
    """
    for param in spec.get("params", []):
        bind = param.get("bind", {})
        if isinstance(bind, dict):
            yield from [bind] if "input" in bind else bind.values()


def in_vega(spec: Record, names: int) -> Record:
    """The chart in Vega, so that the browser needs no compiler of Vega-Lite;
    so many names stand in a line of its legend.
    """
    sizes = {"labelFontSize": PRINT, "titleFontSize": PRINT}
    look = LOOK | {part: LOOK[part] | sizes for part in ("axis", "legend", "header")}
    look["legend"] = look["legend"] | {"columns": names}
    look["style"] = {
        "guide-label": {"fill": INK, "fontSize": PRINT},
        "guide-title": {"fill": INK, "fontSize": PRINT},
    }
    return vl_convert.vegalite_to_vega(fitted(spec), vl_version=VEGA_LITE, config=look)


def for_any_width(wide: Record, tall: Record) -> Record:
    "One chart that takes one of two forms when it is drawn."
    found = {k: v for k, v in either(wide, tall).items() if k != "$schema"}
    if wide != tall:
        found["signals"] = [
            {"name": "narrow", "init": f"windowSize()[0] <= {NARROW}"},
            *found.get("signals", []),
        ]
    return found


def either(wide: Any, tall: Any) -> Any:
    "Two forms of a chart as one: where numbers differ, a signal chooses."
    if wide == tall:
        return wide
    if isinstance(wide, dict):
        # an expression already: how many panels stand in a line
        if isinstance(wide.get("signal"), str):
            return wide | {"signal": f"narrow ? {tall['signal']} : {wide['signal']}"}
        both = {k: either(wide[k], tall[k]) for k in wide}
        # an expression gives it: that of a signal, or of something drawn
        if both.get("value") != wide.get("value"):
            both["init" if "name" in both else "signal"] = both.pop("value")["signal"]
        return both
    if isinstance(wide, list):
        return [either(*pair) for pair in zip(wide, tall, strict=True)]
    return {"signal": f"narrow ? {json.dumps(tall)} : {json.dumps(wide)}"}


def as_lines(data: Record) -> Record:
    """A table of a chart in Vega as CSV, if its columns hold numbers or words:
    so their names stand there once.
    """
    rows = data.get("values")
    if (
        not rows
        or "format" in data
        or not isinstance(rows, list)
        or not isinstance(rows[0], dict)
        or len({*map(tuple, rows)}) > 1
    ):
        return data
    kinds = {name: {type(row[name]) for row in rows} for name in rows[0]}
    if not all(found <= {int, float} or found == {str} for found in kinds.values()):
        return data
    lines = StringIO()
    writer = csv.DictWriter(lines, list(kinds), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return data | {
        "values": lines.getvalue(),
        "format": {"type": "csv", "parse": {n: "number" for n in kinds if kinds[n] != {str}}},
    }


def text(title: Any) -> str:
    "A Vega-Lite title: a string, lines, or an object that holds one of them."
    title = title.get("text", "") if isinstance(title, dict) else title or ""
    return title if isinstance(title, str) else " ".join(title)


def noticed(spec: Record) -> str:
    "What a chart says is to be noticed: its subtitle."
    title = spec.get("title")
    return text(title.get("subtitle")) if isinstance(title, dict) else ""


@functools.cache
def look() -> Record:
    "How all charts look: the configuration that Vega makes of LOOK, the same for each."
    point = {"data": {"values": [{}]}, "mark": "point"}
    return for_any_width(*(in_vega(point, names) for names in IN_A_LINE))["config"]


def as_script(both: Record, fill: bool, first: bool) -> str:
    "What the browser draws, as JSON in a script; the first on a page brings the look of all."
    if fill:
        both["signals"] = [
            {"name": "width", "init": f"containerSize()[0] || {both.pop('width')}"},
            *both.get("signals", []),
        ]
    config = both.pop("config")
    assert config == look()
    both |= {"config": config} if first else {}
    both["data"] = [as_lines(data) for data in both["data"]]
    source = json.dumps(both, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return source.replace("</", "<\\/")


def figure(spec: Record, ident: str, first: bool) -> str:
    """The chart as an HTML figure; the first on a page tells the others how they look.

    Drawn once, while it and what draws it stay.
    """
    kept = KEPT / sha256(json.dumps([spec, ident, first]).encode() + DRAWN_BY).hexdigest()
    if not kept.exists():
        html = draw(spec, ident, first)
        KEPT.mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_text(html, encoding="utf-8")
        new.replace(kept)  # whole or not at all, whoever else builds
    return kept.read_text(encoding="utf-8")


def silent(spec: Record) -> Record:
    "The chart without room for its readout: book.js writes that beside the controls."
    said, *rest = spec.get("vconcat") or [{}]
    if said.get("name") != "readout":
        return spec
    unseen = said["mark"] | {"fontSize": 0, "lineHeight": 0}
    encoding = said["encoding"] | {"x": {"value": 0}}
    said = said | {"mark": unseen, "encoding": encoding, "width": 0, "height": 0}
    return spec | {"vconcat": [said, *rest], "spacing": 0}


def draw(spec: Record, ident: str, first: bool) -> str:
    "The figure, drawn."
    caption, notice = text(spec.get("title")) or spec.get("description", ""), noticed(spec)
    if not caption:
        raise ValueError("a chart needs a title or a description, for readers who cannot see it")
    # the sentence stands above the picture
    said = spec.get("description", caption).removesuffix(notice).rstrip()
    spec = {
        k: v
        for k, v in (spec | {"description": said}).items()
        if k not in ("title", "$schema", "config")
    }
    found = "\n".join(tables(spec))
    spec.pop("usermeta", None)
    spec = silent(spec)
    wide = filling(spec, COLUMN, WIDER, IN_A_LINE[0])
    tall = filling(
        stacked(spec) | ({"columns": 1} if "facet" in spec else {}), PHONE, 1, IN_A_LINE[1]
    )
    source = as_script(for_any_width(wide, tall), fills(spec), first)
    room = f"--wide:{height(wide)}px;--narrow:{height(tall)}px"
    many = len(list(controls(spec)))
    room += f";--controls:{many}" if many else ""
    form = f'\n<form class="chart-controls" aria-label="{escape(caption)}"></form>' if many else ""
    return f"""\
<figure class="chart" id="{escape(ident)}" style="{room}">
<figcaption>{tag("b", escape(caption))} {escape(notice)}</figcaption>{form}
<div class="chart-view"><div class="chart-data">
{found}
</div></div>
<script type="application/json">{source}</script>
</figure>"""
