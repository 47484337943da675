#include "token_file.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

namespace streams {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

std::string_view bytes_of(const MappedFile& file) { return {reinterpret_cast<const char*>(file.data()), file.size()}; }

// llm.c's files begin with 256 i32: a magic number, a version and the number of tokens (dev/data/data_common.py).
constexpr std::int64_t llmc_head_bytes = 1024;
struct LlmcHead {
  std::int32_t magic = 0;
  std::int32_t version = 0;
  std::int32_t tokens = 0;
};
constexpr std::array<std::pair<LlmcHead, TokenType>, 2> llmc_heads{
    {{{20240520, 1, 0}, TokenType::uint16}, {{20240801, 7, 0}, TokenType::uint32}}};

std::optional<std::pair<LlmcHead, TokenType>> llmc_head(std::string_view bytes) {
  LlmcHead head;
  if (bytes.size() < llmc_head_bytes) return {};
  std::memcpy(&head, bytes.data(), sizeof head);
  for (const auto& [known, type] : llmc_heads) {
    if (head.magic == known.magic && head.version == known.version) return std::pair(head, type);
  }
  return {};
}

}  // namespace

FilePair pair_of(const std::string& path) {
  const fs::path file(path);
  const bool is_one = file.extension() == ".bin" || file.extension() == ".idx";
  const auto prefix = is_one ? (file.parent_path() / file.stem()).string() : path;
  return {prefix + ".bin", prefix + ".idx"};
}

TokenFile TokenFile::megatron(const std::string& path) {
  const auto pair = pair_of(path);
  for (const auto& [name, other] : {std::pair(pair.tokens, pair.index), std::pair(pair.index, pair.tokens)}) {
    if (is_file(name)) continue;
    throw Error(is_file(other) ? cat("there is no such file beside ", other) : "there is no such file",
                "copy both files, the tokens (.bin) and their index (.idx); of a flat file of ids say data.dtype",
                name);
  }
  TokenFile file;
  file.path_ = pair.tokens;
  file.file_ = std::make_shared<const MappedFile>(pair.tokens);
  file.index_file_ = std::make_shared<const MappedFile>(pair.index);
  file.index_ = std::make_shared<const MegatronIndex>(bytes_of(*file.index_file_), file.file_->size(), pair);
  file.type_ = file.index_->type();
  file.size_ = file.index_->tokens();
  return file;
}

TokenFile TokenFile::flat(const std::string& path, std::optional<TokenType> type) {
  TokenFile file;
  file.path_ = path;
  file.file_ = std::make_shared<const MappedFile>(path);
  const auto all = static_cast<std::int64_t>(file.file_->size());
  const auto head = llmc_head(bytes_of(*file.file_));
  if (head) file.begin_ = llmc_head_bytes;
  if (!head && !type)
    throw Error("nothing says of which type its ids are", "set data.dtype (nanoGPT's is uint16)", path);
  file.type_ = head ? head->second : *type;
  const auto each = streams::bytes_of(file.type_);
  file.size_ = (all - file.begin_) / each;
  if (all == 0) throw Error("it is empty", "name a file with tokens", path);
  if (head && file.size_ != head->first.tokens) {
    throw Error(cat("its head says ", thousands(head->first.tokens), " tokens at byte 8, and ", thousands(file.size_),
                    " follow"),
                "copy it again, or write it again with what made it", path);
  }
  if ((all - file.begin_) % each != 0) {
    throw Error(cat("it has ", thousands(all), " bytes, which are no whole tokens of ", name_of(file.type_)),
                head ? "copy it again" : "correct data.dtype, or copy it again", path);
  }
  return file;
}

TokenFile TokenFile::joined(const std::string& path, const std::string& name) {
  TokenFile file;
  file.path_ = name;
  file.file_ = std::make_shared<const MappedFile>(path);
  const auto all = bytes_of(*file.file_);
  JoinedEnd end;
  const auto wanted = end.magic;
  if (all.size() >= sizeof end) std::memcpy(&end, all.data() + all.size() - sizeof end, sizeof end);
  if (all.size() < sizeof end || end.magic != wanted || end.index_bytes > all.size() - sizeof end)
    throw Error("it is not what was written", "delete it: it is made again", path);
  const auto tokens = all.size() - sizeof end - end.index_bytes;
  file.index_ =
      std::make_shared<const MegatronIndex>(all.substr(tokens, end.index_bytes), tokens, FilePair{path, path});
  file.type_ = file.index_->type();
  file.size_ = file.index_->tokens();
  return file;
}

bool TokenFile::is_of_llmc(const std::string& path) { return llmc_head(bytes_of(MappedFile(path))).has_value(); }

std::int64_t TokenFile::byte_of(std::int64_t token) const { return begin_ + token * streams::bytes_of(type_); }

void TokenFile::read(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids) const {
  CAPSTAN_ASSERT(begin >= 0 && count >= 0 && begin + count <= size_);
  append_ids(type_, file_->data() + byte_of(begin), count, ids);
}

}  // namespace streams
