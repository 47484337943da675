// Of the plugin that reads a tokenizer.json what these tests write one with.
#include "plugins/tokenizers/hf/byte_level.cc"
