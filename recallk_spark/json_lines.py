"""Lines of JSON as rows, one object a line, with the notes that text_sources describes.

Spark would guess types from the whole file and turn the number 7 into the text '7'. Here the first lines say which
columns there are and whether ids are text or integers, and every other line has to keep to that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from recallk_spark.arrays import ARRAY_NAMES
from recallk_spark.errors import InputError
from recallk_spark.schema import GRADE, ITEM, QUERY, RANK, RUN, SCORE, SKIPPED
from recallk_spark.specs import ID_COLUMNS, Format, Kind, Source
from recallk_spark.text_sources import (
    LINE,
    NUMBERS,
    Cell,
    first_lines,
    no_problem,
    partition_columns,
    refuse_repeated_names,
    rows_of,
)

_SAMPLE = 100  # lines that the columns are found from
_REST = "_rest"  # from_json's note on a line that it could not read
# bare NaN and infinities, as Python writes them, are no JSON: for counting the values of a line they are blotted out
_NOT_JSON = r"[-+]?\b(?:NaN|Infinity|INF)\b"
_EXPECTED: Mapping[Kind, tuple[str, ...]] = {
    Kind.SCORES: (RUN, QUERY, ITEM, SCORE, RANK),
    Kind.RELEVANCE: (QUERY, ITEM, GRADE, "source"),
    Kind.QUERIES: (),
}
_WITHOUT_LINES: Mapping[Kind, list[str]] = {
    Kind.SCORES: [QUERY, ITEM, SCORE],
    Kind.RELEVANCE: [QUERY, ITEM],
    Kind.QUERIES: [QUERY],
}
_TYPES: Mapping[str, DataType] = {"double": DoubleType(), "int": IntegerType()}

Objects = list[dict[str, Any]]


def parse_json_lines(lines: DataFrame, source: Source, *, kind: Kind) -> DataFrame:
    """JSON lines: the columns that the first 100 lines name, in order of appearance.

    Ids are text or integers of 64 bits, as the first lines have them: another type, 7.0 included, is malformed.
    Scores and grades are doubles (NaN and infinities allowed), rank an integer, every other column the text of its
    value. Under `arrays:` the list of objects becomes an array of (item_id, score), its objects read by position.

    Raises:
        InputError: two columns of one name; `arrays:` without a list of two-field objects.
    """
    sample = _objects(first_lines(lines, _SAMPLE))
    names = list(dict.fromkeys(name for row in sample for name in row)) or _WITHOUT_LINES[kind]
    refuse_repeated_names(names, source)
    entries = _entries(sample, source) if source.format is Format.ARRAYS else {}
    types = {name: _type_of_json(name, kind) for name in names} | entries
    late = _names_to_miss(kind, types)
    fields = {**types, **dict.fromkeys(late, StringType()), _REST: StringType()}
    schema = StructType([StructField(name, data_type) for name, data_type in fields.items()])
    options = {"columnNameOfCorruptRecord": _REST, "mode": "PERMISSIVE", "allowSingleQuotes": "false"}
    line, parsed = F.col(LINE), F.col("_parsed")
    frame = lines.select("*", (~line.rlike(r"\S")).alias(SKIPPED), F.from_json(line, schema, options).alias("_parsed"))

    cells = {name: _cell(parsed.getField(name), name, data_type, sample) for name, data_type in types.items()}
    problems = [
        F.when(_values(line) != 1, F.lit("not one JSON object")),
        F.when(parsed.getField(_REST).isNotNull(), F.lit(_expectation(types))),
        *(F.when(parsed.getField(name).isNotNull(), F.lit(f"has '{name}', as no line before it")) for name in late),
    ]
    return rows_of(frame, cells, problems=problems, carried=partition_columns(lines))


def _objects(texts: Iterable[str]) -> Objects:
    """The objects among the lines; a line that is none will be malformed."""
    found = []
    for text in texts:
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _type_of_json(name: str, kind: Kind) -> DataType:
    return VariantType() if name in ID_COLUMNS else _TYPES.get(NUMBERS[kind].get(name, ""), StringType())


def _names_to_miss(kind: Kind, types: Mapping[str, DataType]) -> list[str]:
    """Columns that would be lost quietly if only later lines had them. Spark does not tell cases apart."""
    known = {name.lower() for name in types}
    if any(isinstance(data_type, ArrayType) for data_type in types.values()):
        known |= {ITEM, SCORE, RANK}  # they come out of the array
    return [name for name in _EXPECTED[kind] if name not in known]


def _entries(sample: Objects, source: Source) -> dict[str, DataType]:
    """The column that holds the lists, and its type: an array of structs of an id and a score."""
    names = sorted({name for row in sample for name, value in row.items() if isinstance(value, list)})
    if len(names) > 1:
        names = [name for name in ARRAY_NAMES if name in names][:1] or names
    if len(names) > 1 or (sample and not names):
        raise InputError(f"{source}: which column is the list of results? Name it 'items'; lists: {names or 'none'}")
    name = names[0] if names else ARRAY_NAMES[0]
    first = next((entry for entry in _listed(sample, name) if entry is not None), {ITEM: "", SCORE: 0})
    if not isinstance(first, dict) or len(first) != 2:
        raise InputError(f"{source}: '{name}' holds {json.dumps(first)}; objects of an item and a score are read")
    item, score = first
    return {name: ArrayType(StructType([StructField(item, VariantType()), StructField(score, DoubleType())]))}


def _listed(sample: Objects, name: str) -> list[Any]:
    return [entry for row in sample if isinstance(row.get(name), list) for entry in row[name]]


def _cell(value: Column, name: str, data_type: DataType, sample: Objects) -> Cell:
    if isinstance(data_type, VariantType):
        return _id(value, name, [row.get(name) for row in sample])
    if not isinstance(data_type, ArrayType):
        return Cell(value, no_problem())
    assert isinstance(data_type.elementType, StructType)  # _entries made it
    item, score = data_type.elementType.names
    seen = [entry.get(item) for entry in _listed(sample, name) if isinstance(entry, dict)]

    def result(entry: Column) -> Column:
        return F.struct(_id(entry[item], item, seen).value.alias(ITEM), entry[score].alias(SCORE))

    problem = F.filter(F.transform(value, lambda entry: _id(entry[item], item, seen).problem), lambda x: x.isNotNull())
    return Cell(F.transform(value, result), F.get(problem, F.lit(0)))


def _id(value: Column, name: str, seen: list[Any]) -> Cell:
    """An id of the type that the first of the ids seen has; a null is a null."""
    first = next((value for value in seen if value is not None), "")
    integers = isinstance(first, int) and not isinstance(first, bool)
    data_type, expected = ("bigint", "BIGINT") if integers else ("string", "STRING")
    found = F.schema_of_variant(value)
    wrong = F.concat(F.lit(f"{name} is {expected} in the first lines, but here "), found)
    return Cell(F.try_variant_get(value, "$", data_type), F.when(~found.isin(expected, "VOID"), wrong))


def _values(line: Column) -> Column:
    """How many JSON values the line holds, 0 where it is no JSON; from_json would read the first and drop the rest."""

    def count(text: Column) -> Column:
        return F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))

    return F.coalesce(count(line), count(F.regexp_replace(line, _NOT_JSON, "0")), F.lit(0))


def _expectation(types: Mapping[str, DataType]) -> str:
    """What from_json did not find."""
    numbers = [f"a number in '{name}'" for name, data_type in types.items() if data_type in _TYPES.values()]
    lists = [f"items and numbers in '{name}'" for name, data_type in types.items() if isinstance(data_type, ArrayType)]
    return "not a JSON object" + (f" with {' and '.join([*numbers, *lists])}" if numbers or lists else "")
