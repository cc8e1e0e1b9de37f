"""Reading what is published, through the manifest: whole, of one attempt, whatever is being published meanwhile.

Needs pyarrow only; no Spark is started.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recallk_spark.errors import InputError, did_you_mean
from recallk_spark.keys import DS, RUN, Key
from recallk_spark.storage import Store, open_store, reason
from recallk_spark.versions import ATTEMPTS, Manifest, latest, list_manifests

if TYPE_CHECKING:
    import pyarrow.dataset as pads  # imported where it is used: it brings pandas, which no evaluation needs

_TRIES = 20
_PAUSE = 0.05  # seconds; files that were moved or replaced under our feet are looked for again after this


@dataclass(frozen=True)
class Published:
    """One (day, run) that is published.

    Attributes:
        ds: the day, None where the root is not by day.
        run_id: the run.
        attempt: the attempt that made it.
        version: 1 for the first publication of this (day, run), one more with each later one.
        tables: names of the tables it has, sorted.
        fingerprint: of its protocol, '' where its writer gave none.
        schema_version: of its tables, 0 where its writer gave none.
        row_counts: rows by table.
        started, finished: UTC times, ISO 8601.
        details: the manifest's whole content, as it stands in the file.
    """

    ds: str | None
    run_id: str
    attempt: str
    version: int
    tables: tuple[str, ...]
    fingerprint: str
    schema_version: int
    row_counts: Mapping[str, int]
    started: str
    finished: str
    details: Mapping[str, Any]


def published(root: str) -> list[Published]:
    """What is published under `root`, by day, then run; empty where nothing is.

    Raises:
        InputError: `root` is missing or cannot be read, or a manifest is damaged.
    """
    store = open_store(root)
    try:
        return [_published(manifest) for manifest in _holding(store, _keys(store))]
    except OSError as error:
        raise InputError(f"cannot read {root}: {reason(error)}") from error


def read_table(
    root: str,
    table: str,
    *,
    ds: str | None = None,
    run_id: str | None = None,
    columns: Sequence[str] | None = None,
    filters: Any = None,
) -> pa.Table:
    """The rows of a published table, of all days and runs or of those selected.

    Each (day, run) is read from one attempt, never a mix. Columns `ds` (where the root is by day) and `run_id`
    stand first; a column that older files do not have is null there. Runs without any row have the columns of
    the other runs of the root; where no run tells them, the columns asked for are of type null.

    Args:
        columns: names of columns, in this order; all without it.
        filters: as pyarrow.parquet.read_table takes them: an expression, or lists of (column, operator, value).

    Raises:
        InputError: nothing is published under `root`, or not this table, day or run; or files are missing.
    """
    store = open_store(root)
    problem = ""
    for _ in range(_TRIES):
        try:
            manifests = _selected(store, ds, run_id)
            _require_table(store, table, manifests)
            return _scan(store, table, manifests, columns, filters)
        except OSError as error:  # moved or replaced since its manifest was read
            problem = reason(error)
            time.sleep(_PAUSE)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InputError(f"cannot read '{table}' in {root}: {reason(error)}") from error
    raise InputError(f"cannot read '{table}' in {root}: {problem}; if files are gone, evaluate again")


def _holding(store: Store, keys: Iterable[Key]) -> list[Manifest]:
    found = (latest(store, key) for key in keys)
    return [manifest for manifest in found if manifest and not manifest.retired]


def _keys(store: Store) -> list[Key]:
    if not store.exists(""):
        raise InputError(f"{store.root} does not exist")
    return list(list_manifests(store).versions)


def _published(manifest: Manifest) -> Published:
    content = manifest.content
    return Published(
        ds=manifest.key.ds,
        run_id=manifest.key.run_id,
        attempt=manifest.attempt,
        version=manifest.version,
        tables=tuple(sorted(manifest.tables)),
        fingerprint=content.get("fingerprint", ""),
        schema_version=content.get("schema_version", 0),
        row_counts=content.get("row_counts", {}),
        started=content.get("started", ""),
        finished=content.get("finished", ""),
        details=content,
    )


def _selected(store: Store, ds: str | None, run_id: str | None) -> list[Manifest]:
    keys = _keys(store)
    manifests = _holding(store, (k for k in keys if ds in (None, k.ds) and run_id in (None, k.run_id)))
    if not manifests:
        raise InputError(_nothing_of(store, [manifest.key for manifest in _holding(store, keys)], ds, run_id))
    return manifests


def _nothing_of(store: Store, known: Sequence[Key], ds: str | None, run_id: str | None) -> str:
    if not known:
        return f"no published result in {store.root}"
    days = {key.ds for key in known if key.ds is not None}
    if ds is not None and ds not in days:
        hint = did_you_mean(ds, days) if days else "; it is not by day, leave 'ds' out"
        return f"no published result of {ds} in {store.root}{hint}"
    runs = {key.run_id for key in known if ds in (None, key.ds)}
    of_day = "" if ds is None else f" of {ds}"
    return f"no published result of run '{run_id}'{of_day} in {store.root}{did_you_mean(str(run_id), runs)}"


def _require_table(store: Store, table: str, manifests: Sequence[Manifest]) -> None:
    without = [str(manifest.key) for manifest in manifests if table not in manifest.tables]
    if without:
        tables = ", ".join(sorted({name for manifest in manifests for name in manifest.tables}))
        raise InputError(
            f"'{table}' is not published in {store.root} for {without[0]} ({len(without)} such); there: {tables}"
        )


def _scan(
    store: Store, table: str, manifests: Sequence[Manifest], columns: Sequence[str] | None, filters: Any
) -> pa.Table:
    import pyarrow.dataset as pads  # noqa: PLC0415

    fragments = _fragments(store, table, manifests)
    by_day = any(manifest.key.ds is not None for manifest in manifests)
    keys = pa.schema([(name, pa.string()) for name in ((DS, RUN) if by_day else (RUN,))])
    told = [f.physical_schema.remove_metadata() for f in fragments or _fragments_of_others(store, table)]
    if not told and columns is not None:
        told = [pa.schema([(name, pa.null()) for name in columns if name not in keys.names])]
    schema = pa.unify_schemas([keys, *told])
    if not fragments:
        return schema.empty_table().select(schema.names if columns is None else list(columns))
    data = pads.FileSystemDataset(fragments, schema, pads.ParquetFileFormat(), store.filesystem)
    condition = pq.filters_to_expression(filters) if isinstance(filters, list) else filters
    return data.to_table(columns=None if columns is None else list(columns), filter=condition)


def _fragments(store: Store, table: str, manifests: Iterable[Manifest]) -> list[pads.ParquetFileFragment]:
    import pyarrow.dataset as pads  # noqa: PLC0415

    parquet = pads.ParquetFileFormat()
    return [
        parquet.make_fragment(path, store.filesystem, _is_of(manifest))
        for manifest in manifests
        for path in _locate(store, table, manifest)
    ]


def _fragments_of_others(store: Store, table: str) -> list[pads.ParquetFileFragment]:
    """Those of one run that has rows, if there is one: they tell the columns."""
    for manifest in _holding(store, _keys(store)):
        if manifest.tables.get(table):
            return _fragments(store, table, [manifest])
    return []


def _is_of(manifest: Manifest) -> pc.Expression:
    of = pc.field(RUN) == manifest.key.run_id
    return of if manifest.key.ds is None else of & (pc.field(DS) == manifest.key.ds)


def _locate(store: Store, table: str, manifest: Manifest) -> list[str]:
    """Where a manifest's files are: in place, else still where the attempt wrote them."""
    place = f"{table}/{manifest.key.directory}"
    names = manifest.tables[table]
    present = set(store.names(place)) if names else set()
    attempt = f"{ATTEMPTS}/{manifest.attempt}/{place}"
    return [store.location(f"{place if name in present else attempt}/{name}") for name in names]
