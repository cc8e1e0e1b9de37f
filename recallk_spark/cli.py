"""The command line: options, subcommands, exit codes. No arithmetic in here.

stdout carries the result, stderr progress and what is wrong. Exit codes: 0 ok, 2 usage, 3 an input is at fault,
4 Spark or storage failed, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from recallk_spark.config import JobConfig, resolve
from recallk_spark.errors import ContractError, RecallkError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from recallk_spark.report import Report

INTERRUPTED = 130
DEMO_DIRECTORY = "recallk-demo"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    try:
        options = vars(build_parser().parse_args(argv))
        command = options.pop("command")
        return _COMMANDS[command](options)
    except RecallkError as error:
        print(f"recallk: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        print("recallk: pyspark is not installed; pip install 'recallk-spark[spark]' brings it", file=sys.stderr)
        return RecallkError.exit_code
    except KeyboardInterrupt:
        print("recallk: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def script() -> NoReturn:
    """Entry point of the installed command."""
    sys.exit(main())


def _evaluate(options: dict[str, Any]) -> int:
    config = _config(options)
    report = _run(config)
    _show(report, config.format)
    return 0


def _run(config: JobConfig) -> Report:
    from recallk_spark.inputs import Tables, open_inputs  # noqa: PLC0415
    from recallk_spark.job import evaluate_and_publish, evaluate_only  # noqa: PLC0415
    from recallk_spark.running import tasks_told, time_limit  # noqa: PLC0415
    from recallk_spark.session import spark_errors  # noqa: PLC0415
    from recallk_spark.sinks import Output  # noqa: PLC0415
    from recallk_spark.terminal import progress  # noqa: PLC0415

    tables = Tables.of(config)
    if config.output:
        Output(config.output, ds=tables.ds)  # a root that cannot be written is said before Spark starts
    with progress() as say, spark_errors():
        spark = _session(config)
        with tasks_told(spark, say.tasks), time_limit(spark, config.job_timeout) as in_time:

            def step(name: str) -> None:
                in_time()
                say(name)

            step("reading names and types")
            opened = open_inputs(spark, config)
            if config.output:
                report = evaluate_and_publish(spark, opened, config, step=step)
            else:
                step("reading scores, ranking, judging")
                report = evaluate_only(opened, config)
    for text in report.warnings:
        print(f"recallk: warning: {text}", file=sys.stderr)
    return report


def _validate(options: dict[str, Any]) -> int:
    from recallk_spark.inputs import Tables, open_inputs  # noqa: PLC0415
    from recallk_spark.job import validate  # noqa: PLC0415
    from recallk_spark.report import counts_line  # noqa: PLC0415
    from recallk_spark.running import time_limit  # noqa: PLC0415
    from recallk_spark.session import spark_errors  # noqa: PLC0415

    config = _config(options)
    Tables.of(config)
    with spark_errors():
        spark = _session(config)
        with time_limit(spark, config.job_timeout) as in_time:
            in_time()
            faults, warned, counts = validate(open_inputs(spark, config, every_repeat=True))
    if faults:
        raise ContractError(faults)
    for text in warned:
        print(f"recallk: warning: {text}", file=sys.stderr)
    if config.format == "json":
        print(json.dumps({"counts": counts}, ensure_ascii=False))
    else:
        print("\n".join(f"{run}: {counts_line(counted)}" for run, counted in sorted(counts.items())))
        print("no fault found")
    return 0


def _explain(options: dict[str, Any]) -> int:
    from recallk_spark.inputs import open_inputs  # noqa: PLC0415
    from recallk_spark.plans import MEANING, Plan  # noqa: PLC0415
    from recallk_spark.session import GROUP_LIMIT_THRESHOLD, spark_errors  # noqa: PLC0415

    config = _config(options)
    with spark_errors():
        spark = _session(config)
        opened = open_inputs(spark, config)
        print("protocol")
        for name, value in config.protocol.settings().items():
            print(f"  {name} = {json.dumps(value, ensure_ascii=False)}")
        print(f"fingerprint\n  {config.protocol.fingerprint}")
        print(f"plan\n  {opened.choice.plan}: {MEANING[opened.choice.plan]}\n  why: {opened.choice.why}")
        threshold = int(spark.conf.get(GROUP_LIMIT_THRESHOLD) or 0)
        if opened.choice.plan is Plan.WINDOW and config.protocol.depth > threshold:
            print(
                f"  depth {config.protocol.depth} is beyond {GROUP_LIMIT_THRESHOLD} = {threshold}: whole lists are "
                "numbered before they are cut, instead of cutting them on the way; raise it in your session"
            )
        print("physical plan")
        opened.chain.profile.explain(mode="formatted")
    return 0


def _demo(options: dict[str, Any]) -> int:
    from recallk_spark.demo import write_warehouse  # noqa: PLC0415

    folder = Path(options.pop("output") or DEMO_DIRECTORY)
    print(f"writing a made-up shop's warehouse to {folder / 'warehouse'}", file=sys.stderr)
    warehouse = write_warehouse(folder / "warehouse")
    given = {
        "scores": [str(warehouse.scores)],
        "relevance": str(warehouse.relevance),
        "queries": str(warehouse.queries),
        "slices": [name for name in warehouse.slices if "*" not in name],
        "ds": warehouse.ds,
        "output": str(folder / "published"),
        **{name: value for name, value in options.items() if value is not None},
    }
    config = resolve(given, environ={}, file=None)
    report = _run(config)
    _show(report, config.format)
    if config.format == "table":
        print(f"\nThe tables are in {config.output} (profile/, per_query/, protocol/).")
        print(
            "The same by hand:\n"
            f"  recallk evaluate --scores {warehouse.scores} --relevance {warehouse.relevance} "
            f"--queries {warehouse.queries} --slices {','.join(config.slices)} --ds {warehouse.ds} "
            f"--output {config.output}"
        )
    return 0


_COMMANDS = {"evaluate": _evaluate, "validate": _validate, "explain": _explain, "demo": _demo}


def _config(options: dict[str, Any]) -> JobConfig:
    file = options.pop("config")
    return resolve(options, environ=os.environ, file=file)


def _session(config: JobConfig) -> SparkSession:
    from recallk_spark.session import start  # noqa: PLC0415

    return start(master=config.master, remote=config.remote, conf=config.conf, depth=config.protocol.depth)


def _show(report: Report, form: str) -> None:
    from recallk_spark.job import as_json  # noqa: PLC0415
    from recallk_spark.terminal import print_report  # noqa: PLC0415

    if form == "json":
        print(as_json(report))
    else:
        print_report(report)


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints end like every other: one line on stderr, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


class _Once(argparse.Action):
    """An option with one value, which is not silently taken from the last of two."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} is given twice")
        setattr(namespace, self.dest, values)


def build_parser() -> argparse.ArgumentParser:
    """Every subcommand with its options; what is not given stays None, so that a lower level can give it."""
    parser = _Parser(
        prog="recallk", description="Recall at every depth, macro and micro, on Spark.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", metavar="SUBCOMMAND", required=True, parser_class=_Parser)

    demo = commands.add_parser(
        "demo", help="a made-up warehouse: seed, evaluate, report, in one go", allow_abbrev=False
    )
    demo.add_argument("--output", metavar="DIR", help=f"where to write (default: {DEMO_DIRECTORY})")
    _add_spark(demo)
    demo.add_argument("--format", choices=("table", "json"), help="what to print (default: table)")

    evaluate = commands.add_parser("evaluate", help="evaluate scores against relevance", allow_abbrev=False)
    _add_inputs(evaluate)
    evaluate.add_argument("--output", metavar="DIR", help="where to publish; without it the result is only printed")
    flags = {
        "--no-per-query": ("per_query", False, "leave the per-query table out of what is published"),
        "--allow-empty": ("allow_empty", True, "publish a day without score rows instead of refusing it"),
        "--replace-day": ("replace_day", True, "retire published runs of the day that are no longer in the input"),
    }
    for flag, (name, value, text) in flags.items():
        evaluate.add_argument(flag, dest=name, action="store_const", const=value, help=text)

    validate = commands.add_parser("validate", help="every fault of the input", allow_abbrev=False)
    _add_inputs(validate)
    explain = commands.add_parser(
        "explain", help="resolved protocol and physical plan; runs nothing", allow_abbrev=False
    )
    _add_inputs(explain)
    return parser


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    def add(*names: str, action: str | type[argparse.Action] = _Once, **settings: Any) -> None:
        parser.add_argument(*names, action=action, **settings)

    add("--scores", metavar="[NAME=]SPEC", action="append", help="scores; may be repeated. SPEC is [format:]location")
    add("--relevance", metavar="SPEC", help="relevance labels")
    add("--queries", metavar="SPEC", help="the list of queries to evaluate, with slice columns")
    add("--cutoffs", metavar="1,5,10", help="depths at which measures are reported")
    add("--depth", metavar="N", help="deepest rank kept (default: the largest cutoff)")
    add("--slices", metavar="a,b,a*b", help="columns of queries to report apart")
    add("--ds", metavar="YYYY-MM-DD", help="the day")
    add("--ds-column", metavar="NAME", help="the column of scores that holds the day (default: ds)")
    add("--run-id", metavar="NAME", help="name of a run that brings none")
    add("--set", metavar="KEY=VALUE", action="append", dest="settings", help="any key, as protocol.tie_break=item_desc")
    add("--preset", metavar="NAME", help="named settings: trec_eval, trec_eval9")
    add("--plan", metavar="PLAN", help="auto, window or pruned")
    add("--format", metavar="table|json", help="what to print (default: table)")
    add("--job-timeout", metavar="SECONDS", help="give up after this long (default: never)")
    add("--config", metavar="FILE", help="TOML file with any of these; see conf/evaluate.toml")
    _add_spark(parser)


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="Spark master (default: local[*])")
    parser.add_argument("--remote", metavar="URL", help="Spark Connect server, sc://host:port")
    parser.add_argument("--conf", metavar="K=V", action="append", help="a Spark setting; may be repeated")


if __name__ == "__main__":
    script()
