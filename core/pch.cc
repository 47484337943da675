// Exists to own the precompiled header (see pch.h); holds no code.
