#pragma once

/// Opens namespace capstan with its symbols exported from core; everything else in core is hidden.
/// Plugins see the same declarations, so that core's classes keep one typeinfo; a version script keeps a
/// plugin's own symbols local whatever their visibility. Only headers use it: definitions follow their declaration.
#define CAPSTAN_BEGIN_NAMESPACE namespace [[gnu::visibility("default")]] capstan {
#define CAPSTAN_END_NAMESPACE }
