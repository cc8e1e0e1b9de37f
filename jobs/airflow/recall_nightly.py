"""Recall of every night, for Airflow 3.3: validate the day's tables, then evaluate and publish them.

A run is of the day its data interval starts with. It may be run again at any time: a day is replaced as a whole, and
only when every check holds. What it reads of Airflow:

    variable    recallk_jobs     the folder with validate.py and evaluate.py, where spark-submit runs
    variable    recallk_config   a TOML file as conf/evaluate.toml, with absolute paths, an output, and no ds
    connection  spark_default    the master
"""

from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, CronDataIntervalTimetable, RetryDecision, RetryPolicy

REFUSED = {2: "the options or the configuration are wrong", 3: "an input is refused"}


class NotWhenRefused(RetryPolicy):
    """Spark and storage may do better a second time; a wrong setting or a refused table will not."""

    def evaluate(self, exception, *_, **__):
        for code, reason in REFUSED.items():
            if f"Error code is: {code}." in str(exception):  # the operator tells the exit code nowhere else
                return RetryDecision.fail(reason)
        return RetryDecision.default()


def recallk(command: str) -> SparkSubmitOperator:
    """The task that runs one command of recallk for the day, named as the command."""
    return SparkSubmitOperator(
        task_id=command,
        name=f"recallk-{command}-{{{{ data_interval_start | ds }}}}",
        application=f"{{{{ var.value.recallk_jobs }}}}/{command}.py",
        application_args=["--config", "{{ var.value.recallk_config }}", "--ds", "{{ data_interval_start | ds }}"],
        conn_id="spark_default",
        retries=2,
        retry_delay=timedelta(minutes=10),
        retry_policy=NotWhenRefused(),
        execution_timeout=timedelta(hours=4),
    )


with DAG(
    dag_id="recall_nightly",
    description="Recall at every depth of yesterday's results",
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
    start_date=datetime(2026, 11, 1),
    catchup=False,
    max_active_runs=1,
    tags=["recallk"],
):
    recallk("validate") >> recallk("evaluate")
