#pragma once
/// Start here to write a tokenizer:
///
///     class Mine : public capstan::tokenizer::Opener { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_TOKENIZER("mine", "1.0", "whose texts it cuts", Mine, MineOptions)
#include <capstan/config/options.h>
#include <capstan/plugin/descriptor.h>
#include <capstan/tokenizer/opener.h>

#define CAPSTAN_TOKENIZER(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("tokenizer", name, version, summary,                  \
                 (&capstan::plugin::add_type<capstan::tokenizer::Opener, Class, OptionStruct>))

/// The same for a tokenizer that opens files by their names ("mine.vocab", several with a space between), where
/// data.tokenizer or a model's folder means one: its options all have defaults.
#define CAPSTAN_TOKENIZER_OF_FILES(name, version, summary, Class, OptionStruct, files) \
  CAPSTAN_NOTE("4", files)                                                             \
  CAPSTAN_TOKENIZER(name, version, summary, Class, OptionStruct)
