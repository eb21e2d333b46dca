"""A catalog of Spark with the changes of its tables (`TableCatalog.loadChangelog`), which Spark's own does not have:
`java/FileChanges.java`, compiled if there is a compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pyspark
from pyspark.sql import SparkSession

MISSING = "javac is needed (on Debian or Ubuntu: apt-get install openjdk-17-jdk-headless)"
SOURCE = Path(__file__).parent / "java" / "FileChanges.java"
NAME = "changelog"


def compiler() -> str | None:
    """The Java compiler, if there is one."""
    return shutil.which("javac")


def add_catalog(spark: SparkSession, home: Path) -> None:
    """Adds the catalog `changelog` to a session; the changes of its tables are in the files of a directory."""
    command, classes, jar = compiler(), home / "classes", home / "changes.jar"
    assert command is not None
    path = Path(pyspark.__file__).parent / "jars" / "*"
    subprocess.run([command, "--release", "17", "-d", classes, "-cp", str(path), SOURCE], check=True)
    with ZipFile(jar, "w") as packed:
        for file in classes.iterdir():
            packed.write(file, file.name)
    spark.sql(f"ADD JAR '{jar}'")
    spark.conf.set(f"spark.sql.catalog.{NAME}", "FileChanges")
    spark.conf.set(f"spark.sql.catalog.{NAME}.home", str(home))
