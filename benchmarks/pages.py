"""What the suite found, as a page with a table, and as a chart."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]

WIDTH, LABEL, BAR, STEP = 720, 150, 16, 26
MOST = 4.0
"""Where bars end: ratios beyond say their figure only."""

HEAD = """# Performance

This page explains how fast the service is, and how much memory and CPU it takes. Each figure is
compared with that of a reference program (yardstick) in the same run. `make bench` installs the
package, runs it with `jobauto up`, and generates this page. Compare ratios within a run, not
figures from different runs or machines. `python -m benchmarks.NAME --json` prints the rows of one
benchmark.

- The **floor** is what Prefect's API alone takes for a run: create it, set it to Running, start
  `/bin/true`, set it to Completed.
- A **bare Prefect server** is one without jobauto.
- A **stock worker** is Prefect's own worker for processes. It runs the same jobs.
- A **burst** is many jobs posted at once. Its rate is measured until all of them have ended.
- The **knee** is the highest rate at which the median job still ends within 0.3 s of its creation.

{airflow}[Comparison](comparison.md#airflow) compares Airflow with jobauto in other respects.

A goal is what the project aims for. If a goal is not met, plan with the value: you get it on a
machine like this one.

"""

AIRFLOW = """\
On the same machine, Airflow runs {airflow_per_second} jobs of a burst per second, and jobauto
{value}. """


def page(rows: Sequence[Row], machine: Mapping[str, Any]) -> str:
    """The page, in Markdown."""
    versions = ", ".join(f"{name} {text}" for name, text in machine["versions"].items())
    where = f"{machine['cores']} cores, {machine['architecture']}, Python {machine['python']}"
    where += "; databases on PostgreSQL on the same machine, unless a row names SQLite"
    with_airflow = [row for row in rows if "airflow_per_second" in row]
    head = HEAD.format(airflow="".join(AIRFLOW.format(**row) for row in with_airflow))
    lines = ["| what | value | yardstick | ratio | goal | met |", "|---|---|---|---|---|---|"]
    lines += [_line(row) for row in rows]
    return f"{head}{where}; {versions}.\n\n![Ratios](images/performance.svg)\n\n" + "\n".join(
        [*lines, ""]
    )


def _line(row: Row) -> str:
    if row["value"] is None:
        return f"| {row['name']} | | | | | no: {row['error']} |"
    met = "yes" if row["met"] else "no"
    value = f"{row['value']} {row['unit']}"
    yardstick = f"{row['yardstick_value']} ({row['yardstick']})"
    return f"| {row['name']} | {value} | {yardstick} | {row['ratio']} | {row['goal']} | {met} |"


def chart(rows: Sequence[Row]) -> str:
    """The ratios as bars, in SVG; where the goal is met they are green."""
    known = [row for row in rows if row["ratio"] is not None]
    height = STEP * len(known) + 10
    bars = "".join(_bar(row, 5 + number * STEP) for number, row in enumerate(known))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">\n'
        f"<title>Value by yardstick</title>\n{bars}</svg>\n"
    )


def _bar(row: Row, top: int) -> str:
    length = min(float(row["ratio"]), MOST) / MOST * (WIDTH - LABEL - 60)
    colour = "#2e7d32" if row["met"] else "#b26a00"
    middle = top + BAR - 4
    return (
        f'<text x="0" y="{middle}" fill="#444">{escape(row["name"])}</text>'
        f'<rect x="{LABEL}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
        f'<text x="{LABEL + length + 6:.1f}" y="{middle}" fill="#444">{row["ratio"]}</text>\n'
    )
