"""The look of all charts (Vega-Altair): a white sheet, thin grey lines, colours that colour-blind eyes tell apart.

Colours are those of Okabe and Ito; ours is blue in every chart.
"""

from __future__ import annotations

from typing import Any, Final

import altair as alt

BLUE, ORANGE, GREEN, GREY, SKY, BLACK = "#0072B2", "#D55E00", "#009E73", "#767676", "#56B4E9", "#222222"
FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
WIDE: Final = 760
"""Pixels of a chart's plot; pictures are twice as fine."""

Row = dict[str, Any]


def styled(chart: Any, title: str, subtitle: str) -> Any:
    """The house's look: a white sheet, thin grey lines, a title that says what is seen."""
    head = alt.TitleParams(title, subtitle=subtitle.split("\n"), anchor="start", offset=14)
    return (
        chart.properties(title=head, background="white", padding=14)
        .configure(font=FONT)
        .configure_title(fontSize=16, subtitleFontSize=12, subtitleColor="#555555", subtitlePadding=5, color=BLACK)
        .configure_axis(
            labelFontSize=11,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor="#E6E6E6",
            domainColor="#888888",
            tickColor="#888888",
            labelColor="#333333",
            titleColor="#333333",
        )
        .configure_view(stroke=None)
        .configure_header(labelFontSize=12, labelFontWeight="bold", labelColor=BLACK)
        .configure_legend(labelFontSize=12, titleFontSize=12, symbolStrokeWidth=3, labelLimit=400)
    )


def panel_title(words: str) -> Any:
    """Of one panel among several."""
    return alt.TitleParams(words, fontSize=12, anchor="start", frame="group", offset=6)


def decades(channel: Any, field: str, title: str) -> Any:
    """A logarithmic axis with a line at every power of ten."""
    axis = alt.Axis(values=[10**power for power in range(-6, 7)], format="~g")
    return channel(field, title=title, scale=alt.Scale(type="log"), axis=axis)
