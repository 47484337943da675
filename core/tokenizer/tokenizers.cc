#include "tokenizer/tokenizers.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/tokenizer/opener.h>

#include <filesystem>
#include <unordered_map>

#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace capstan::tokenizer {
namespace {

std::shared_ptr<const Tokenizer> open_file(const std::filesystem::path& file) {
  const auto spec = parse_tokenizer(read_file(file), file.string());
  std::unordered_map<std::string, std::int64_t> ids;
  std::int64_t vocab_size = 0;
  const auto add = [&](const std::string& token, std::int64_t id) {
    ids.emplace(token, id);
    vocab_size = std::max(vocab_size, id + 1);
  };
  for (const auto& [token, id] : spec.model.vocabulary) add(token, id);
  for (const auto& token : spec.added) add(token.content, token.id);
  const auto id_of = [&](const std::string& token) {
    const auto found = ids.find(token);
    return found == ids.end() ? -1 : found->second;
  };
  auto special = read_special_ids(file.parent_path(), id_of, vocab_size);
  return std::make_shared<const BpeTokenizer>(file.string(), spec, std::move(special));
}

std::shared_ptr<const Tokenizer> open_folder(const std::filesystem::path& folder) {
  const auto file = folder / "tokenizer.json";
  if (!is_there(file)) {
    throw Error(cat("there is no tokenizer.json in ", folder.string()),
                cat("write it with Python: transformers.AutoTokenizer.from_pretrained(\"", folder.string(),
                    R"(").save_pretrained(")", folder.string(), R"("); or name another, such as "byte")"));
  }
  return open_file(file);
}

}  // namespace

Tokenizer::~Tokenizer() = default;
Opener::~Opener() = default;
std::vector<std::filesystem::path> Opener::files(const OpenRequest&) const { return {}; }

std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name, const std::string& model_folder) {
  if (name == "byte" || (name == "auto" && model_folder.empty())) return std::make_shared<const ByteTokenizer>();
  if (name == "auto") return open_folder(model_folder);
  if (is_folder(name)) return open_folder(name);
  if (is_there(name)) return open_file(name);
  if (name.find('/') != std::string::npos)
    throw Error(cat("there is no tokenizer ", name), "name a tokenizer.json, or a folder that holds one");
  throw Error(cat("there is no tokenizer '", name, "'"), suggestion(name, {"auto", "byte"}));
}

}  // namespace capstan::tokenizer
