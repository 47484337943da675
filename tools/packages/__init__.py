"""What tools/release makes of a build: a wheel, an archive, a Debian package, with their manual and their list of parts."""
