#pragma once
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include <string>

#include "support/tokenizer_files.h"

/// What is wrong with a tokenizer.json, a fault a line.
inline std::string refusal(const capstan::Json& file) {
  const Scratch scratch;
  capstan::write_file(scratch / "tokenizer.json", file.dump());
  try {
    open_tokenizer((scratch / "tokenizer.json").string());
  } catch (const capstan::Error& error) {
    std::string text;
    for (const auto& fault : error.diagnostics()) {
      CHECK(fault.where == (scratch / "tokenizer.json").string());
      text += fault.what + "\n";
    }
    return text;
  }
  return "accepted";
}
