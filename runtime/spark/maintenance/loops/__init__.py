"""Loops on Spark: the iteration of steps, the changes that are fed back to them, and those that are held back."""
