"""The rules of the house, read by tools/check-house."""
