"""The settings of a job: command line over environment over file over default, as one frozen JobConfig.

A setting has one full name, SECTION.KEY, with the sections job, protocol and spark. The file says `[job]` and
`output = ...`, the command line `--output` or `--set job.output=...`, the environment `RECALLK_OUTPUT`
(RECALLK_SECTION_KEY, with `job` left out). `conf/evaluate.toml` explains every key.

A value that comes as text is read by the kind of its key: true or false, numbers, lists by commas; specs and
Spark settings hold commas themselves and are split at blanks, with quotes as in a shell. An empty text sets an
optional key to none; an empty variable counts as absent. Here the kind of a value is checked; Protocol judges its
own settings, and days and specs are judged by the rooms that open them.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from recallk_spark.errors import ConfigError, ProtocolError, did_you_mean
from recallk_spark.protocol import Protocol
from recallk_spark.settings import KEYS, PREFIX, SECTIONS, Key

CONFIG_VARIABLE = "RECALLK_CONFIG"  # the file itself; the one variable that is no key
_CONF = "spark.conf"
# options of their own: the rest of the protocol goes through --set
_OPTIONS = {
    key.field: name
    for name, key in KEYS.items()
    if key.section != "protocol" or key.field in ("cutoffs", "depth", "preset")
}


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """Everything `recallk evaluate`, `validate` and `explain` need to know, resolved.

    Attributes:
        scores: specs of the score tables, each `[NAME=][FORMAT:]LOCATION`.
        relevance: spec of the relevance table; None where none was given.
        queries: spec of the table of queries to evaluate, if any.
        output: a folder; None prints only.
        protocol: the settings that decide what a number means, the preset's among them.
        slices: columns of the queries table, or crosses such as `country*device`.
        ds: the day as text, not yet checked to be one; None where the inputs have no days.
        ds_column: the column of the scores that holds the day.
        run_id: the name of a run that brings none of its own.
        plan: 'auto', 'window' or 'pruned'.
        per_query: whether the per-query table is published.
        allow_empty: whether a day without score rows is published as such instead of refused.
        replace_day: whether published runs that are no longer in the input are retired.
        format: 'table' or 'json', the form of what is printed.
        job_timeout: seconds until the job is given up; 0 for never.
        master: a Spark master; never together with `remote`.
        remote: a Spark Connect address.
        conf: Spark settings, all as text.
        preset: the preset the protocol was built on. Settings given explicitly, at any level, stand above it.
    """

    scores: tuple[str, ...] = ()
    relevance: str | None = None
    queries: str | None = None
    output: str | None = None
    protocol: Protocol = dataclasses.field(default_factory=Protocol)
    slices: tuple[str, ...] = ()
    ds: str | None = None
    ds_column: str = "ds"
    run_id: str | None = None
    plan: str = "auto"
    per_query: bool = True
    allow_empty: bool = False
    replace_day: bool = False
    format: str = "table"
    job_timeout: float = 0.0
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)  # may hold credentials
    preset: str | None = None


def resolve(options: Mapping[str, Any], *, environ: Mapping[str, str], file: str | None) -> JobConfig:
    """The settings of one job, each from the highest level that gives it.

    Args:
        options: what was given on the command line; None or absent means not given. Keys are the fields of
            JobConfig, `cutoffs`, `depth`, and `settings`: texts SECTION.KEY=VALUE, of which the last of a key
            counts. `conf` is a list of texts KEY=VALUE.
        environ: the environment; only RECALLK_* is read.
        file: path of the TOML file; without it RECALLK_CONFIG, if set, names it.

    Raises:
        ConfigError: an unreadable file, an unknown key or variable, a value of the wrong kind, or master and
            remote together.
        ProtocolError: a value that is no value of its protocol setting; the message says where it was given.
    """
    origin = "--config" if file is not None else CONFIG_VARIABLE
    path = file if file is not None else environ.get(CONFIG_VARIABLE) or None
    given = dict(_from_file(path, origin)) if path is not None else {}
    given |= _from_environment(environ)
    given |= _from_options(options)
    _check_one_cluster(given)
    fields = {key.field: given[name].value for name, key in KEYS.items() if name in given and _is_plain(key)}
    conf = {n.removeprefix(f"{_CONF}."): v.value for n, v in given.items() if n.startswith(f"{_CONF}.")}
    return JobConfig(**fields, protocol=_protocol(given), conf=conf)


class _Given(NamedTuple):
    value: Any
    origin: str  # how an error names the place: file and key, variable, or option


_NONE = _Given(None, "default")


def _is_plain(key: Key) -> bool:
    """Whether the key is itself a field of JobConfig; of the protocol only the preset is."""
    return key.section != "protocol" or key.field == "preset"


def _protocol(given: Mapping[str, _Given]) -> Protocol:
    settings = {key.field: given[name].value for name, key in KEYS.items() if name in given and not _is_plain(key)}
    try:
        return Protocol.from_settings(settings, preset=given.get("protocol.preset", _NONE).value)
    except ProtocolError as error:  # every value is good by itself: what is left is depth against cutoffs
        places = [f"{n} from {given.get(n, _NONE).origin}" for n in ("protocol.depth", "protocol.cutoffs")]
        raise ProtocolError(f"{error} ({', '.join(places)})") from None


def _check_one_cluster(given: Mapping[str, _Given]) -> None:
    master, remote = (given.get(name, _NONE) for name in ("spark.master", "spark.remote"))
    if master.value and remote.value:
        raise ConfigError(
            f"master and remote exclude each other; given are '{master.value}' ({master.origin}) and "
            f"'{remote.value}' ({remote.origin}); drop one, or clear it: --set spark.master= or spark.remote="
        )


def _from_file(path: str, origin: str) -> Iterator[tuple[str, _Given]]:
    try:
        content = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{origin}: cannot read '{path}': {error.strerror or error}") from None
    except tomllib.TOMLDecodeError as error:  # its text names line and column
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{origin}: '{path}' is not a text file in UTF-8: {error}") from None
    for section, table in content.items():
        if section not in SECTIONS:
            same = [name for name, key in KEYS.items() if key.field == section]
            hint = f"; did you mean '{same[0]}'?" if same else did_you_mean(section, SECTIONS)
            raise ConfigError(f"{path}: unknown section or key '{section}'{hint}")
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {section}: expected a table [{section}], not {table!r}")
        for field, raw in table.items():
            name = f"{section}.{field}"
            if name not in KEYS:
                raise ConfigError(f"{path}: unknown key '{name}'{_nearest(name, field, KEYS)}")
            yield from _entries(name, raw, f"{path}: {name}", text=False)


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, _Given]]:
    names = {key.variable: name for name, key in KEYS.items()}
    for variable in sorted(v for v in environ if v.startswith(PREFIX) and v != CONFIG_VARIABLE):
        if variable not in names:
            bare = variable.removeprefix(PREFIX).lower().removeprefix("job_")
            hint = _nearest(variable, bare, {v: KEYS[n] for v, n in names.items()})
            raise ConfigError(f"unknown environment variable {variable}{hint}")
        if environ[variable]:  # compose files hand on what is not set as ''
            yield from _entries(names[variable], environ[variable], variable, text=True)


def _from_options(options: Mapping[str, Any]) -> Iterator[tuple[str, _Given]]:
    named: dict[str, _Given] = {}
    for option, raw in options.items():
        if option not in _OPTIONS and option != "settings":
            raise ConfigError(f"unknown option '{option}'{did_you_mean(option, (*_OPTIONS, 'settings'))}")
        if option != "settings" and raw is not None:
            origin = f"--{option.replace('_', '-')}"
            named |= _entries(_OPTIONS[option], raw, origin, text=True)
    yield from named.items()
    for setting in options.get("settings") or ():
        for name, value in _from_setting(setting):
            if name in named:
                raise ConfigError(f"{name} is given twice, by {named[name].origin} and by --set; drop one")
            yield name, value


def _from_setting(setting: str) -> Iterator[tuple[str, _Given]]:
    name, equals, text = setting.partition("=")
    name = name.strip()
    if not equals or name == f"{_CONF}.":
        raise ConfigError(f"--set {setting}: expected SECTION.KEY=VALUE (protocol.tie_break=item_desc)")
    if name.startswith(f"{_CONF}."):
        yield name, _Given(text, f"--set {name}")
    elif name in KEYS:
        yield from _entries(name, text, f"--set {name}", text=True)
    else:
        raise ConfigError(f"--set: unknown key '{name}'{_nearest(name, name.rpartition('.')[2], KEYS)}")


def _nearest(word: str, bare: str, known: Mapping[str, Key]) -> str:
    """The hint for an unknown word: the key of that name in another section, else the nearest spelling."""
    same = [spelling for spelling, key in known.items() if key.field == bare]
    return f"; did you mean '{same[0]}'?" if same else did_you_mean(word, known)


def _entries(name: str, raw: Any, origin: str, *, text: bool) -> Iterator[tuple[str, _Given]]:
    """One key's value, checked. Each Spark setting is an entry of its own, so that levels mix by setting."""
    key = KEYS[name]
    try:
        value = key.kind.parse(raw) if text and isinstance(raw, str) else key.kind.check(raw)
    except (TypeError, ValueError):
        given = "" if name == _CONF else f", not {raw!r}"  # Spark settings may be credentials
        hint = did_you_mean(str(raw), key.kind.words) if key.kind.words else ""
        raise ConfigError(f"{origin}: expected {key.kind.expected}{given}{hint}") from None
    if name == _CONF:
        yield from ((f"{_CONF}.{setting}", _Given(value[setting], origin)) for setting in value)
        return
    if key.section == "protocol":
        _check_alone(key, value, origin)
    yield name, _Given(value, origin)


def _check_alone(key: Key, value: Any, origin: str) -> None:
    """Refuse a bad protocol value where it was given, whether or not a higher level overrides it."""
    try:
        if key.field == "preset":
            Protocol.from_settings({}, preset=value)
        else:
            Protocol.from_settings({"cutoffs": (1,), key.field: value})  # below any depth
    except ProtocolError as error:
        raise ProtocolError(f"{origin}: {str(error).removeprefix(f'{key.field}: ')}") from None
