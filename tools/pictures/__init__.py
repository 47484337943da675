"""The pictures that tools/draw-parallelism draws."""
