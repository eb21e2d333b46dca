"""Runs the command `mrql` as `python -m mrql`."""

from mrql.cli.main import main

main(prog_name="mrql")
