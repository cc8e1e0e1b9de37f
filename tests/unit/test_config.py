"""Configuration: who wins, what is refused and with which words, and the example file."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recallk_spark.config import JobConfig, resolve
from recallk_spark.errors import ConfigError, ProtocolError
from recallk_spark.protocol import Protocol, TieBreak
from recallk_spark.settings import KEYS

EXAMPLE = Path(__file__).resolve().parents[2] / "conf" / "evaluate.toml"


def job(
    options: dict[str, Any] | None = None, *, environ: dict[str, str] | None = None, file: Path | None = None
) -> JobConfig:
    return resolve(options or {}, environ=environ or {}, file=None if file is None else str(file))


def refusal(error: type[Exception] = ConfigError, **given: Any) -> str:
    with pytest.raises(error) as caught:
        job(given.pop("options", None), **given)
    assert type(caught.value) is error
    return str(caught.value)


@pytest.fixture
def toml(tmp_path: Path) -> Any:
    def write(text: str) -> Path:
        path = tmp_path / "shop.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_nothing_given_is_the_defaults() -> None:
    config = job()
    assert config == JobConfig()
    assert (config.scores, config.relevance, config.output, config.slices) == ((), None, None, ())
    assert (config.ds, config.ds_column, config.run_id, config.preset) == (None, "ds", None, None)
    assert (config.plan, config.format, config.job_timeout) == ("auto", "table", 0.0)
    assert (config.per_query, config.allow_empty, config.replace_day) == (True, False, False)
    assert (config.master, config.remote, config.conf) == (None, None, {})
    assert config.protocol == Protocol()


def test_a_file_sets_every_kind_of_value(toml: Any) -> None:
    path = toml("""
        [job]
        scores = ["keyword=a.parquet", "csv:b"]
        relevance = "trec:qrels.txt"
        slices = ["country", "country*device"]
        per_query = false
        job_timeout = 90
        [protocol]
        cutoffs = [10, 1]
        depth = 50
        min_grade = 0.5
        tie_break = "item_desc"
        candidates = "all items in stock"
        [spark]
        master = "local[2]"
        """)
    config = job(file=path)
    assert config.scores == ("keyword=a.parquet", "csv:b")
    assert config.relevance == "trec:qrels.txt"
    assert config.slices == ("country", "country*device")
    assert config.per_query is False
    assert config.job_timeout == 90.0
    assert config.master == "local[2]"
    assert config.protocol == Protocol(
        cutoffs=(1, 10), depth=50, min_grade=0.5, tie_break="item_desc", candidates="all items in stock"
    )


def test_the_environment_stands_above_the_file_and_an_option_above_both(toml: Any) -> None:
    path = toml('[job]\noutput = "from-file"\nds = "2026-11-01"\nformat = "json"\n[protocol]\ndepth = 1000\n')
    environ = {"RECALLK_OUTPUT": "from-env", "RECALLK_DS": "2026-11-02", "RECALLK_PROTOCOL_DEPTH": "2000"}
    config = job({"ds": "2026-11-03", "depth": 3000}, environ=environ, file=path)
    assert (config.format, config.output, config.ds) == ("json", "from-env", "2026-11-03")
    assert config.protocol.depth == 3000


def test_an_option_that_is_none_is_not_given_but_false_is() -> None:
    environ = {"RECALLK_DS": "2026-11-02", "RECALLK_ALLOW_EMPTY": "true", "RECALLK_PER_QUERY": "TRUE"}
    config = job({"ds": None, "allow_empty": None, "per_query": False}, environ=environ)
    assert (config.ds, config.allow_empty, config.per_query) == ("2026-11-02", True, False)


def test_variables_are_read_by_the_kind_of_their_key() -> None:
    environ = {
        "RECALLK_SCORES": "keyword=logs/{a,b}.parquet 'csv:my runs/c.csv' C:\\runs\\d.parquet",
        "RECALLK_SLICES": "country, country*device",
        "RECALLK_JOB_TIMEOUT": "1.5",
        "RECALLK_REPLACE_DAY": "true",
        "RECALLK_PROTOCOL_CUTOFFS": "1,5, 10",
        "RECALLK_PROTOCOL_MIN_GRADE": "2",
        "RECALLK_PROTOCOL_TIE_BREAK": "item_desc",
        "RECALLK_SPARK_REMOTE": "sc://cluster",
        "RECALLK_SPARK_CONF": "spark.a=1,2 'spark.b=-Dx=1 -Dy'",
        "HOME": "/root",
    }
    config = job(environ=environ)
    assert config.scores == ("keyword=logs/{a,b}.parquet", "csv:my runs/c.csv", "C:\\runs\\d.parquet")
    assert config.slices == ("country", "country*device")
    assert (config.job_timeout, config.replace_day) == (1.5, True)
    assert config.protocol == Protocol(cutoffs=(1, 5, 10), min_grade=2, tie_break=TieBreak.ITEM_DESC)
    assert config.remote == "sc://cluster"
    assert config.conf == {"spark.a": "1,2", "spark.b": "-Dx=1 -Dy"}


def test_an_empty_variable_counts_as_absent_and_an_empty_text_elsewhere_as_none(toml: Any) -> None:
    path = toml('[job]\nds = "2026-11-01"\nqueries = "q.parquet"\n[protocol]\npreset = "trec_eval"\n')
    assert job(environ={"RECALLK_DS": "", "RECALLK_CONFIG": ""}, file=path).ds == "2026-11-01"
    cleared = job({"ds": "", "settings": ["job.queries=", "protocol.preset="]}, file=path)
    assert (cleared.ds, cleared.queries, cleared.preset) == (None, None, None)
    assert cleared.protocol == Protocol()


def test_several_min_grades_are_a_list_in_a_file_and_have_commas_elsewhere(toml: Any) -> None:
    path = toml("[protocol]\nmin_grade = [2, 0.5, 1]\n")
    assert job(file=path).protocol == Protocol(min_grade=(0.5, 1, 2))
    assert job(environ={"RECALLK_PROTOCOL_MIN_GRADE": "1, 2,3"}, file=path).protocol == Protocol(min_grade=(1, 2, 3))
    assert job({"settings": ["protocol.min_grade=1.5,1"]}, file=path).protocol == Protocol(min_grade=(1, 1.5))
    for one in ({"settings": ["protocol.min_grade=2"]}, {"settings": ["protocol.min_grade=2,2.0"]}):
        assert job(one, file=path).protocol == Protocol(min_grade=2)


@pytest.mark.parametrize("cutoffs", [(5, 1), [5, 1], "1,5"])
def test_cutoffs_and_depth_are_options_of_their_own(cutoffs: object) -> None:
    assert job({"cutoffs": cutoffs, "depth": "7"}).protocol == Protocol(cutoffs=(1, 5), depth=7)


def test_set_reaches_every_section_and_the_last_of_a_key_counts() -> None:
    settings = [
        "protocol.tie_break=rank",
        "protocol.tie_break=item_desc",
        "protocol.relevance_source=clicks = yes",
        "job.plan=window",
        "job.scores=a.parquet b.parquet",
        "spark.master=local[1]",
        "spark.conf.spark.x=a=b",
    ]
    config = job({"settings": settings, "conf": ["spark.y=c=d"]})
    assert config.protocol == Protocol(tie_break="item_desc", relevance_source="clicks = yes")
    assert (config.plan, config.scores, config.master) == ("window", ("a.parquet", "b.parquet"), "local[1]")
    assert config.conf == {"spark.x": "a=b", "spark.y": "c=d"}


def test_a_key_given_by_its_option_and_by_set_is_refused() -> None:
    message = refusal(options={"depth": 200, "settings": ["protocol.depth=300"]})
    assert message == "protocol.depth is given twice, by --depth and by --set; drop one"


def test_spark_settings_mix_by_setting_and_unquoted_dots_are_part_of_the_name(toml: Any) -> None:
    path = toml("""
        [spark.conf]
        spark.sql.shuffle.partitions = 64
        spark.sql.ansi.enabled = true
        "spark.memory.fraction" = 0.6
        "spark.app.name" = "nightly"
        """)
    environ = {"RECALLK_SPARK_CONF": "spark.sql.shuffle.partitions=8"}
    assert job({"conf": ["spark.app.name=by hand"]}, environ=environ, file=path).conf == {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.ansi.enabled": "true",
        "spark.memory.fraction": "0.6",
        "spark.app.name": "by hand",
    }


def test_spark_settings_are_neither_printed_nor_quoted_in_an_error() -> None:
    assert "hunter2" not in repr(job({"conf": ["spark.secret=hunter2"]}))
    message = refusal(environ={"RECALLK_SPARK_CONF": "spark.secret=hunter2 spark.b"})
    assert message == (
        "RECALLK_SPARK_CONF: expected a table of texts, numbers or true and false in a file, "
        "KEY=VALUE (blanks between) elsewhere"
    )


def test_explicit_settings_of_any_level_stand_above_a_preset(toml: Any) -> None:
    path = toml('[protocol]\nduplicates = "collapse"\n')
    config = job({"preset": "trec_eval"}, file=path)
    assert config.preset == "trec_eval"
    assert config.protocol == Protocol.from_settings({"duplicates": "collapse"}, preset="trec_eval")
    assert (config.protocol.tie_break, config.protocol.duplicates) == ("item_desc", "collapse")


def test_the_preset_of_a_higher_level_replaces_the_lower_ones(toml: Any) -> None:
    path = toml('[protocol]\npreset = "trec_eval9"\n')
    assert job(file=path).protocol.score_precision == "float32"
    config = job(environ={"RECALLK_PROTOCOL_PRESET": "trec_eval"}, file=path)
    assert (config.preset, config.protocol.score_precision) == ("trec_eval", "native")


def test_recallk_config_names_the_file_unless_an_option_does(toml: Any, tmp_path: Path) -> None:
    path = toml('[job]\noutput = "a"\n')
    other = tmp_path / "other.toml"
    other.write_bytes(b'\xef\xbb\xbf[job]\noutput = "b"\n')  # as Windows editors save it
    assert job(environ={"RECALLK_CONFIG": str(path)}).output == "a"
    assert job(environ={"RECALLK_CONFIG": str(path)}, file=other).output == "b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[job]\noutptu = "x"', "unknown key 'job.outptu'; did you mean 'job.output'?"),
        ("[job]\ncutoffs = [1]", "unknown key 'job.cutoffs'; did you mean 'protocol.cutoffs'?"),
        ("[protocol]\ntiebreak = 1", "unknown key 'protocol.tiebreak'; did you mean 'protocol.tie_break'?"),
        ("[spark]\nmastr = 1", "unknown key 'spark.mastr'; did you mean 'spark.master'?"),
        ("[protokol]\ndepth = 1", "unknown section or key 'protokol'; did you mean 'protocol'?"),
        ('output = "x"', "unknown section or key 'output'; did you mean 'job.output'?"),
        ("job = 3", "job: expected a table [job], not 3"),
    ],
)
def test_an_unknown_key_of_a_file_is_refused_with_the_nearest(toml: Any, text: str, message: str) -> None:
    path = toml(text)
    assert refusal(file=path) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("RECALLK_OUTPT", "RECALLK_OUTPUT"),
        ("RECALLK_JOB_OUTPUT", "RECALLK_OUTPUT"),
        ("RECALLK_DEPTH", "RECALLK_PROTOCOL_DEPTH"),
        ("RECALLK_MASTER", "RECALLK_SPARK_MASTER"),
        ("RECALLK_PROTOCOL_TIE_BREAKS", "RECALLK_PROTOCOL_TIE_BREAK"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest(variable: str, nearest: str) -> None:
    assert refusal(environ={variable: "x"}) == f"unknown environment variable {variable}; did you mean '{nearest}'?"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"settings": ["protocol.tiebreak=x"]},
            "--set: unknown key 'protocol.tiebreak'; did you mean 'protocol.tie_break'?",
        ),
        ({"settings": ["depth=1"]}, "--set: unknown key 'depth'; did you mean 'protocol.depth'?"),
        (
            {"settings": ["protocol.depth"]},
            "--set protocol.depth: expected SECTION.KEY=VALUE (protocol.tie_break=item_desc)",
        ),
        ({"outputs": "x"}, "unknown option 'outputs'; did you mean 'output'?"),
    ],
)
def test_an_unknown_or_incomplete_option_is_refused(options: dict[str, Any], message: str) -> None:
    assert refusal(options=options) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[job]\nds = 2026-11-29", "job.ds: expected text in quotes, not datetime.date(2026, 11, 29)"),
        ('[job]\nper_query = "no"', "job.per_query: expected true or false, not 'no'"),
        ("[job]\nper_query = 1", "job.per_query: expected true or false, not 1"),
        ('[job]\nds_column = ""', "job.ds_column: expected a name in quotes, not empty, not ''"),
        (
            '[job]\nplan = "windw"',
            "job.plan: expected one of auto, window, pruned, not 'windw'; did you mean 'window'?",
        ),
        ("[job]\njob_timeout = -1", "job.job_timeout: expected a number of seconds, 0 or more, not -1"),
        ("[job]\njob_timeout = nan", "job.job_timeout: expected a number of seconds, 0 or more, not nan"),
        ("[protocol]\ndepth = 10.0", "protocol.depth: expected an integer, not 10.0"),
        ('[protocol]\ndepth = "10"', "protocol.depth: expected an integer, not '10'"),
        ("[protocol]\ndepth = true", "protocol.depth: expected an integer, not True"),
        *(
            (
                f"[protocol]\nmin_grade = {given}",
                "protocol.min_grade: expected a number or several, such as [1, 2] in a file and 1,2 elsewhere, "
                f"not {value}",
            )
            for given, value in [("true", "True"), ('"1,2"', "'1,2'"), ("[1, true]", "[1, True]"), ("[nan]", "[nan]")]
        ),
        (
            "[protocol]\ncutoffs = 10",
            "protocol.cutoffs: expected integers, such as [1, 5, 10] in a file and 1,5,10 elsewhere, not 10",
        ),
        (
            "[protocol]\ntie_break = 1",
            "protocol.tie_break: expected one of item_asc, item_desc, rank, not 1",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_names_file_key_and_what_is_expected(toml: Any, text: str, message: str) -> None:
    path = toml(text)
    assert refusal(file=path) == f"{path}: {message}"


@pytest.mark.parametrize("text", ['scores = "a.parquet"', "scores = [1]", 'scores = [""]', 'slices = "a"'])
def test_a_list_of_a_file_is_a_list_of_texts(toml: Any, text: str) -> None:
    assert f"job.{text[:6]}: expected " in refusal(file=toml(f"[job]\n{text}"))


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("RECALLK_PROTOCOL_CUTOFFS", "1;5", "integers, such as [1, 5, 10] in a file and 1,5,10 elsewhere"),
        ("RECALLK_PROTOCOL_CUTOFFS", "1,5,", "integers, such as [1, 5, 10] in a file and 1,5,10 elsewhere"),
        ("RECALLK_PROTOCOL_MIN_GRADE", "1,", "a number or several, such as [1, 2] in a file and 1,2 elsewhere"),
        ("RECALLK_PROTOCOL_MIN_GRADE", "1,a", "a number or several, such as [1, 2] in a file and 1,2 elsewhere"),
        ("RECALLK_ALLOW_EMPTY", "1", "true or false"),
        ("RECALLK_JOB_TIMEOUT", "5m", "a number of seconds, 0 or more"),
        ("RECALLK_SLICES", "a,,b", 'names, such as ["country", "device"] in a file and country,device elsewhere'),
    ],
)
def test_a_variable_of_the_wrong_kind_is_refused(variable: str, value: str, expected: str) -> None:
    assert refusal(environ={variable: value}) == f"{variable}: expected {expected}, not {value!r}"


def test_a_bad_protocol_value_is_refused_where_it_was_given_even_if_overridden(toml: Any) -> None:
    path = toml('[protocol]\ntie_break = "item_dsc"\n')
    message = refusal(ProtocolError, file=path, options={"settings": ["protocol.tie_break=rank"]})
    assert message == f"{path}: protocol.tie_break: unknown value 'item_dsc'; did you mean 'item_desc'?"
    assert refusal(ProtocolError, environ={"RECALLK_PROTOCOL_MIN_GRADE": "0"}) == (
        "RECALLK_PROTOCOL_MIN_GRADE: a number > 0, not 0.0"
    )
    assert refusal(ProtocolError, file=toml("[protocol]\nmin_grade = [1, -2]")) == (
        f"{path}: protocol.min_grade: a number > 0, not -2.0"
    )
    assert refusal(ProtocolError, file=toml("[protocol]\nmin_grade = []")) == (
        f"{path}: protocol.min_grade: at least one is needed"
    )
    assert refusal(ProtocolError, options={"preset": "trec_evall"}) == (
        "--preset: unknown value 'trec_evall'; did you mean 'trec_eval'?"
    )


def test_a_depth_below_a_cutoff_of_another_level_names_both_places(toml: Any) -> None:
    path = toml("[protocol]\ncutoffs = [1, 50]\n")
    message = refusal(ProtocolError, environ={"RECALLK_PROTOCOL_DEPTH": "20"}, file=path)
    assert message == (
        "depth 20 is smaller than the largest cutoff 50; raise depth or drop the cutoff "
        f"(protocol.depth from RECALLK_PROTOCOL_DEPTH, protocol.cutoffs from {path}: protocol.cutoffs)"
    )


def test_master_and_remote_together_are_refused_with_their_places() -> None:
    given = {"environ": {"RECALLK_SPARK_MASTER": "yarn"}}
    assert refusal(options={"remote": "sc://host"}, **given) == (
        "master and remote exclude each other; given are 'yarn' (RECALLK_SPARK_MASTER) and 'sc://host' "
        "(--remote); drop one, or clear it: --set spark.master= or spark.remote="
    )
    assert job({"remote": "sc://host", "settings": ["spark.master="]}, **given).remote == "sc://host"


def test_a_missing_file_is_refused_by_path_and_by_who_named_it(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert refusal(file=path) == f"--config: cannot read '{path}': No such file or directory"
    assert refusal(environ={"RECALLK_CONFIG": str(tmp_path)}).startswith(f"RECALLK_CONFIG: cannot read '{tmp_path}'")


def test_bad_toml_is_refused_with_its_line(toml: Any) -> None:
    path = toml("[job]\noutput = x\n")
    assert refusal(file=path) == f"{path}: not valid TOML: Invalid value (at line 2, column 10)"


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_bytes(b"[job]\noutput = '\xff'\n")
    assert refusal(file=path).startswith(f"--config: '{path}' is not a text file in UTF-8")


def test_the_example_file_is_the_defaults_apart_from_its_inputs() -> None:
    assert job(file=EXAMPLE) == JobConfig(
        scores=("recallk-demo/warehouse/scores",),
        relevance="recallk-demo/warehouse/relevance.parquet",
        queries="recallk-demo/warehouse/queries.parquet",
        output="recallk-demo/published",
        slices=("country", "device", "country*device"),
        ds="2026-11-29",
    )


def test_the_example_file_shows_every_key_and_the_shown_values_are_the_defaults(toml: Any) -> None:
    text = re.sub(r"(?m)^#(\w+ = )", r"\1", EXAMPLE.read_text(encoding="utf-8"))
    shown = {f"{section}.{key}" for section, table in tomllib.loads(text).items() for key in table}
    assert shown == set(KEYS)
    assert job(file=toml(text)) == job(file=EXAMPLE)


def test_configuration_is_resolved_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import recallk_spark.config"
    subprocess.run([sys.executable, "-c", code], check=True)
