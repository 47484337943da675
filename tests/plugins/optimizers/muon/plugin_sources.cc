// The plugin's own sources, which tests call.
#include "plugins/optimizers/muon/muon.cc"
#include "plugins/optimizers/muon/newton_schulz.cc"
