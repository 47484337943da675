#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tokenizer_spec.h"

namespace hf {

/// What the files beside a tokenizer.json say of its tokens.
struct FolderTokens {
  struct Named {
    std::string name;  ///< "eos_token"
    AddedToken token;
    std::string file;  ///< that names it, for messages
  };
  struct Listed {
    AddedToken token;  ///< with the id that the file gives
    std::string name;  ///< "added_tokens_decoder.259", for messages
  };
  std::vector<Named> named;      ///< in the order in which transformers adds them
  std::vector<Listed> listed;    ///< by id, if it is added_tokens.json that lists them with those of tokenizer.json
  std::vector<Listed> repeated;  ///< of added_tokens.json: those of tokenizer.json, whose ids must be the same
  std::string listed_file;
  std::vector<AddedToken> extra;

  /// Null where no file names it.
  const Named* find(const std::string& name) const;
};

/// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json as transformers 5 does. Throws Error that
/// names every key that Capstan cannot follow; warns of keys that Capstan does not know.
FolderTokens read_folder_tokens(const std::filesystem::path& folder, const TokenizerSpec& spec);

/// The files beside tokenizer.json that are read.
std::vector<std::filesystem::path> files_beside(const std::filesystem::path& folder);

}  // namespace hf
