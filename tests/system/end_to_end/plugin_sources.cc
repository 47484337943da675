// The parts of the plugin for tokenizer.json with which these tests write one.
#include "plugins/tokenizers/hf/byte_level.cc"
