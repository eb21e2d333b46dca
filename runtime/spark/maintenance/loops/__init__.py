"""Loops on Spark: steps whose changes go round, what is fed back to them, and what of them is kept back."""
