# Everything is installed into .venv; PYTHON is only what makes it: make test PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
MINUTES ?= 10

BIN = $(VENV)/bin
# Two processes, with a Spark session each: one alone, for all tests that need one, takes longer than all the others together,
# and a third one spends what it gains on a session of its own.
WORKERS = -n 2 --dist worksteal
INSTALLED = $(VENV)/.installed
DOCUMENTED = $(VENV)/.documented

.PHONY: all demo test check docs soak bench clean java

all: $(INSTALLED)

demo: java $(INSTALLED) ## a continuous join, held against an evaluation from scratch
	$(BIN)/python queries/demo.py

# The rooms are seen under mrql/ too, through links: doctests are collected there, and only there.
test: java $(DOCUMENTED) ## the tests but the widest, and the examples in docstrings
	$(BIN)/python -m pytest $(WORKERS) --doctest-modules mrql tests

check: java $(DOCUMENTED) ## what has to be in order before a change goes in
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict bench
	$(BIN)/mypy --strict queries
	$(MAKE) test docs

docs: $(DOCUMENTED) ## the site of docs/, in build/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

soak: java $(INSTALLED) ## the widest tests, and generated cases with new seeds for so many minutes: make soak MINUTES=60
	$(BIN)/python -m pytest $(WORKERS) -m wide tests
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

bench: java $(INSTALLED) ## measures, and keeps the table in docs/benchmarks.md
	$(BIN)/python -m bench --write

clean:
	rm -rf .venv build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +

# --- what has to be there -------------------------------------------------------------------------

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed, and $(PYTHON) is not one."; \
	  echo "Install it (on Debian or Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=python3.12"; \
	  exit 1; } >&2
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments."; \
	  echo "Install what is missing (on Debian or Ubuntu: apt-get install python3-venv)."; \
	  exit 1; } >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,connect]'
	touch $(INSTALLED)

$(DOCUMENTED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $(DOCUMENTED)

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] || { \
	  echo "Java 17 or newer is needed to run Spark, and $$java is $${version:+version }$${version:-missing}."; \
	  echo "Install it (on Debian or Ubuntu: apt-get install openjdk-17-jre-headless;"; \
	  echo "on Fedora: dnf install java-17-openjdk-headless; on macOS: brew install openjdk@17), or set JAVA_HOME."; \
	  exit 1; } >&2
