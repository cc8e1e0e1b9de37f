"""Lines of CSV and TREC files as rows. No line is lost: what is wrong with one stands in a note beside it.

Every function here takes the lines of a text file (column `value`, and partition columns) and returns a row per
line with the columns of the input, the partition columns, and two notes:

* `_skipped`: true on a blank or comment line;
* `_malformed`: why a line could not be read, ': ' and its first 200 characters; null where it could.

A line with either note has null in every column that comes from its text.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from recallk_spark.errors import InputError
from recallk_spark.schema import GRADE, ITEM, MALFORMED, QUERY, RANK, RUN, SCORE, SKIPPED
from recallk_spark.specs import Kind, Source

LINE = "value"  # Spark's name for a line of text
_PROBLEM = "_problem"
_SHOWN = 200  # characters of a malformed line

# Java alone would also read '1d', '0x1p3' and ' 1' as numbers
_NUMBER = r"^(?:[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?|[-+]?(?i:inf(?:inity)?)|(?i:nan))$"
_INTEGER = r"^[-+]?\d++$"
_CANONICAL_INTEGER = r"^(?:0|-?[1-9]\d*+)$"  # one spelling for one id: neither '007' nor '+7'

# columns of text files that are numbers; ids are text unless the source says otherwise, all other columns are text
NUMBERS: Mapping[Kind, Mapping[str, str]] = {
    Kind.SCORES: {SCORE: "double", RANK: "int"},
    Kind.RELEVANCE: {GRADE: "double"},
    Kind.QUERIES: {},
}


@dataclass(frozen=True)
class Cell:
    """What a piece of a line says: a value, and the problem (text, null if there is none) that keeps it from one."""

    value: Column
    problem: Column


def no_problem() -> Column:
    """The problem of a cell that can have none."""
    return F.lit(None).cast("string")


def read_cell(text: Column, name: str, data_type: str) -> Cell:
    """A piece of text as a value of column `name`; no text is a null, not a problem."""
    if data_type == "string":
        return Cell(text, no_problem())
    value = text.try_cast(data_type)
    if data_type == "double":
        wrong, what = ~text.rlike(_NUMBER), "a number"
    else:
        pattern = _CANONICAL_INTEGER if data_type == "bigint" else _INTEGER
        wrong, what = ~text.rlike(pattern) | value.isNull(), f"an integer ({data_type}, plainly written)"
    return Cell(value, F.when(text.isNotNull() & wrong, F.concat(F.lit(f"{name} '"), text, F.lit(f"' is not {what}"))))


def rows_of(
    parsed: DataFrame, cells: Mapping[str, Cell], *, problems: Iterable[Column], carried: Iterable[str]
) -> DataFrame:
    """One row per line: the cells where the line is sound, the carried columns, and the notes.

    Args:
        parsed: the lines, with `_skipped` and whatever the cells are made of.
        cells: column -> cell.
        problems: what can be wrong with the line as a whole; it comes before what is wrong with a cell.
        carried: columns that do not come from the text; they win over a cell of the same name.
    """
    kept = tuple(carried)
    every = [*problems, *(cell.problem for cell in cells.values())]
    noted = parsed.withColumn(_PROBLEM, F.when(~F.col(SKIPPED), F.coalesce(*every)))
    sound = ~F.col(SKIPPED) & F.col(_PROBLEM).isNull()
    shown = F.concat(F.col(_PROBLEM), F.lit(": "), F.substring(LINE, 1, _SHOWN))
    return noted.select(
        *(F.when(sound, cell.value).alias(name) for name, cell in cells.items() if name not in kept),
        *kept,
        shown.alias(MALFORMED),
        SKIPPED,
    )


def partition_columns(lines: DataFrame) -> list[str]:
    """The columns of the lines that come from directory names."""
    return [name for name in lines.columns if name != LINE]


def parse_trec(lines: DataFrame, source: Source, *, kind: Kind) -> DataFrame:
    """A TREC run (run_id, query_id, item_id, score, rank) or, for relevance, TREC judgments (query_id, item_id, grade).

    White space separates; lines that are blank, '#' or begin with '# ' are skipped. A run line is `query Q0 item rank
    score tag`. As in trec_eval text after the tag is ignored, but only if the line cannot be one whose item id holds
    a blank. A rank that is no integer is null: it matters only under `tie_break = rank`, which refuses nulls.
    """
    line, fields = F.col(LINE), F.col("_fields")
    skipped = line.startswith("# ") | (line == "#") | ~line.rlike(r"\S")
    split = F.regexp_extract_all(line, F.lit(r"\S+"), F.lit(0))
    parsed = lines.select("*", skipped.alias(SKIPPED), split.alias("_fields"))
    ids = dict(source.id_types)

    def field(place: int) -> Column:
        return F.get(fields, F.lit(place))

    cells = {name: read_cell(field(place), name, ids.get(name, "string")) for name, place in ((QUERY, 0), (ITEM, 2))}
    if kind is Kind.SCORES:
        cells[SCORE] = read_cell(field(4), SCORE, "double")
        cells[RANK] = Cell(field(3).try_cast("int"), no_problem())
        cells = {RUN: Cell(field(5), no_problem()), **cells}
        one_reading = field(3).rlike(_INTEGER) & ~field(5).rlike(_NUMBER)
        shaped = (F.size(fields) == 6) | ((F.size(fields) > 6) & one_reading)
        form = "6 (query Q0 item rank score tag)"
    else:
        cells[GRADE] = read_cell(field(3), GRADE, "double")
        shaped = F.size(fields) == 4
        form = "4 (query iteration item grade)"
    misshapen = F.when(~shaped, F.concat(F.size(fields).cast("string"), F.lit(f" fields instead of {form}")))
    return rows_of(parsed, cells, problems=[misshapen], carried=partition_columns(lines))


def parse_csv(lines: DataFrame, source: Source, *, kind: Kind) -> DataFrame:
    """CSV with a header line: the columns the header names, in its order.

    Quotes as in RFC 4180, but a field cannot hold a line break. Ids are the text as it stands, scores and grades
    doubles, rank an integer, every other column text; a field without text is null. Blank lines are skipped.

    Raises:
        InputError: no header line, or one with an empty or repeated name.
    """
    header = first_lines(lines, 1)
    if not header:
        raise InputError(f"{source}: no header line; the first line of a CSV file names its columns")
    names = _header_names(header[0], source)
    places = [f"c{number}" for number in range(len(names))]
    options = {"escape": '"', "columnNameOfCorruptRecord": "_rest", "mode": "PERMISSIVE"}
    schema = ", ".join(f"{place} string" for place in [*places, "_rest"])

    line = F.col(LINE)
    parsed = lines.where(line != header[0]).select(
        "*", (~line.rlike(r"\S")).alias(SKIPPED), F.from_csv(line, schema, options).alias("_cells")
    )
    texts = {name: F.col("_cells").getField(place) for name, place in zip(names, places, strict=True)}
    types = {**dict(source.id_types), **NUMBERS[kind]}
    cells = {name: read_cell(text, name, types.get(name, "string")) for name, text in texts.items()}
    return rows_of(parsed, cells, problems=_csv_problems(line, texts), carried=partition_columns(lines))


def first_lines(lines: DataFrame, count: int) -> list[str]:
    """The first lines of the first file that are not blank: what its columns are found from."""
    return [row[LINE] for row in lines.where(F.col(LINE).rlike(r"\S")).select(LINE).take(count)]


def _header_names(header: str, source: Source) -> list[str]:
    names = next(csv.reader([header]))
    if "" in names:
        raise InputError(f"{source}: the header has a column without a name: {header[:_SHOWN]}")
    refuse_repeated_names(names, source)
    return names


def refuse_repeated_names(names: Sequence[str], source: Source) -> None:
    """Raises an InputError where two columns have one name for Spark, which does not tell cases apart."""
    folded = [name.lower() for name in names]
    repeated = sorted({name for name, bare in zip(names, folded, strict=True) if folded.count(bare) > 1})
    if repeated:
        raise InputError(f"{source}: two columns of one name ({', '.join(repeated)}; case does not count)")


def _csv_problems(line: Column, texts: Mapping[str, Column]) -> list[Column]:
    quotes = F.length(line) - F.length(F.replace(line, F.lit('"'), F.lit("")))
    names = list(texts)
    # another file of the directory may name the same columns in another order
    header_again = F.lit(len(names) > 1)
    for text in texts.values():
        header_again = header_again & F.coalesce(text.isin(names), F.lit(False))
    return [
        F.when(quotes % 2 != 0, F.lit("a quote that is not closed on its line")),
        F.when(F.col("_cells._rest").isNotNull(), F.lit(f"not the {len(names)} fields of the header")),
        F.when(header_again, F.lit("a header unlike the first one")),
    ]
