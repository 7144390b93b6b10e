"""What is said where Spark is not installed, has no Java, or cannot be reached; and where its driver would listen."""

from __future__ import annotations

import socket
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.launch import spark_session
from laminar.launch.choose import launcher_of
from laminar.launch.spark import SparkLauncher

installed = pytest.mark.skipif(find_spec("pyspark") is None, reason="needs Spark")


def refused(launcher: SparkLauncher) -> LaminarError:
    with pytest.raises(LaminarError) as caught:
        spark_session.open_session(launcher._master, 2)
    assert caught.value.code == "L407"
    return caught.value


def test_without_spark_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(spark_session, "active", lambda: None)
    assert refused(SparkLauncher()).hint == "pip install 'laminar-train[spark]'"


@installed
@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_without_java_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if home is None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
    else:
        monkeypatch.setenv("JAVA_HOME", home)
    assert "Java 17" in refused(SparkLauncher()).message


@installed
@pytest.mark.skipif(sys.platform != "linux", reason="Java is looked for first")
def test_a_master_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "_need_java", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as made:
        port = made.getsockname()[1]
    assert "Connection refused" in refused(SparkLauncher(f"spark://127.0.0.1:{port}")).message


@installed
def test_yarn_without_the_settings_of_hadoop_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "_need_java", lambda: None)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    said = refused(SparkLauncher("yarn"))
    assert "HADOOP_CONF_DIR" in said.message and said.hint.startswith("export HADOOP_CONF_DIR")


def test_what_nobody_waits_for_any_more_is_not_waited_for() -> None:
    off, never = threading.Event(), threading.Event()
    off.set()
    with pytest.raises(spark_session.CalledOff):
        spark_session._within(60.0, lambda: never.wait(60.0), off)
    never.set()


@pytest.mark.parametrize("address", ["spark://host", "spark://:7077", "spark://host:port"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(LaminarError, match="no address of a Spark master"):
        _ = SparkLauncher(address).host


def test_it_listens_where_the_master_is_reached_and_never_everywhere() -> None:
    assert (
        SparkLauncher().host == SparkLauncher("spark://127.0.0.1:7077").host == SparkLauncher("local-cluster[2,1,1024]").host == "127.0.0.1"
    )
    settings = spark_session.settings("spark://a:7077", 2, "10.0.0.7", Path("/tmp"))
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.0.0.7"


@pytest.mark.parametrize(("on", "master"), [("spark", None), ("spark://a:7077", "spark://a:7077"), ("spark:yarn", "yarn")])
def test_addresses_of_the_command_line(on: str, master: str | None) -> None:
    found = launcher_of(on)
    assert isinstance(found, SparkLauncher) and found._master == master
