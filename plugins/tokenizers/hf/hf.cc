#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/tokenizer.h>

#include <array>
#include <memory>
#include <vector>

#include "added_ids.h"
#include "bpe_tokenizer.h"
#include "file_tables.h"
#include "folder_tokens.h"
#include "special_ids.h"
#include "tokenizer_json.h"

namespace hf {
namespace {

using namespace capstan;
namespace fs = std::filesystem;

// What tokenizers of the `tokenizers` and transformers packages are saved as.
constexpr std::array saved_names{"tokenizer.json",
                                 "tokenizer_config.json",
                                 "special_tokens_map.json",
                                 "added_tokens.json",
                                 "vocab.json",
                                 "merges.txt",
                                 "tokenizer.model",
                                 "chat_template.jinja",
                                 "chat_template.json",
                                 "additional_chat_templates"};

// What makes transformers read a tokenizer.json as it stands, instead of as its model's family has it. Without the
// names it also gives token_type_ids, which generate() refuses.
constexpr auto plain_config = R"({
  "tokenizer_class": "PreTrainedTokenizerFast",
  "model_input_names": ["input_ids", "attention_mask"]
}
)";

fs::path file_of(const tokenizer::TokenizerRequest& request) {
  if (!request.file.empty()) return request.file;
  if (request.model_folder.empty())
    throw Error("no tokenizer.json is named", "set model.path, or data.tokenizer in place of [tokenizer]");
  return request.model_folder / "tokenizer.json";
}

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
  static std::vector<config::FileKeys> file_keys() {
    return {tokenizer_keys(), tokenizer_config_keys(), special_tokens_map_keys(), added_tokens_keys()};
  }
};

/// A tokenizer.json; the files next to it have more tokens, and say what ends an answer.
class TokenizerJson final : public tokenizer::Opener {
 public:
  explicit TokenizerJson(const config::Options<NoOptions>&) {}

  std::shared_ptr<const tokenizer::Tokenizer> open(const tokenizer::TokenizerRequest& request) const override {
    const auto file = file_of(request);
    if (!is_there(file)) {
      const auto folder = file.parent_path().string();
      throw Error(cat("there is no tokenizer.json in ", folder),
                  cat("write it with Python: transformers.AutoTokenizer.from_pretrained(\"", folder,
                      R"(").save_pretrained(")", folder, R"("); or name another, such as "byte")"));
    }
    auto spec = parse_tokenizer(read_file(file), file.string());
    const auto folder = file.parent_path();
    const auto tokens = read_folder_tokens(folder, spec);
    const auto ids = add_tokens(spec, tokens);
    auto special = read_special_ids(folder, tokens, ids);
    return std::make_shared<const BpeTokenizer>(file.string(), std::move(spec), std::move(special));
  }

  std::vector<fs::path> files(const tokenizer::TokenizerRequest& request) const override {
    const auto file = file_of(request);
    auto all = files_beside(file.parent_path());
    all.insert(all.begin(), file);
    return all;
  }

  bool save(const tokenizer::TokenizerRequest& request, const fs::path& folder) const override {
    const auto file = file_of(request);
    for (const auto* name : saved_names) {
      if (is_there(file.parent_path() / name)) copy_over(file.parent_path() / name, folder / name);
    }
    copy_over(file, folder / "tokenizer.json");
    if (!is_there(folder / "tokenizer_config.json")) write_file(folder / "tokenizer_config.json", plain_config);
    return true;
  }
};

}  // namespace

CAPSTAN_TOKENIZER_OF_FILES("hf", "0.1.0",
                           "a tokenizer.json; needs no table where data.tokenizer or a model's folder means one",
                           TokenizerJson, NoOptions, "tokenizer.json")

}  // namespace hf
