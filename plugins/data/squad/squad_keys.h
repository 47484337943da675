#pragma once
#include <capstan/base/json.h>
#include <capstan/config/file_keys.h>

#include <string>
#include <vector>

namespace squad {

/// The keys of a SQuAD file, each by the path that leads to it: "data[].paragraphs[].qas[].id".
const capstan::config::FileKeys& squad_keys();

/// The keys of a row of a table.
const capstan::config::FileKeys& row_keys();

/// The paths of a file's keys that the table does not have, each once.
std::vector<std::string> unknown_keys(const capstan::Json& file);

}  // namespace squad
