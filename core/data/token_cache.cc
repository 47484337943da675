#include "data/token_cache.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iomanip>
#include <limits>
#include <random>
#include <string_view>
#include <utility>

namespace capstan::data {
namespace {

// The file, in this machine's byte order: Head, the key, the samples, then their offsets (samples + 1 of them).
// A sample: five u32 (tokens, prompt length, bytes of the id, references, bytes of those), i32 tokens, a byte per token
// that says whether it is a target, the id, then each reference behind its u32 length.
struct Head {
  std::array<char, 8> magic{'c', 'a', 'p', 's', 't', 'o', 'k', '1'};
  std::uint64_t key_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t offsets_at = 0;
};

std::uint64_t hash_of(std::string_view text) {  // FNV-1a; the whole key stands in the file
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

template <class Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Size>
void put_size(std::string& out, Size size) {
  CAPSTAN_ASSERT(size >= 0 && static_cast<std::uint64_t>(size) <= std::numeric_limits<std::uint32_t>::max());
  put(out, static_cast<std::uint32_t>(size));
}

std::string record_of(const Sample& sample) {
  std::string references;
  for (const auto& reference : sample.references) {
    put_size(references, static_cast<std::int64_t>(reference.size()));
    references += reference;
  }
  std::string out;
  put_size(out, static_cast<std::int64_t>(sample.tokens.size()));
  put_size(out, sample.prompt_length);
  put_size(out, static_cast<std::int64_t>(sample.id.size()));
  put_size(out, static_cast<std::int64_t>(sample.references.size()));
  put_size(out, static_cast<std::int64_t>(references.size()));
  for (const auto token : sample.tokens) put(out, static_cast<std::int32_t>(token));
  for (const bool target : sample.is_target) out += target ? '\1' : '\0';
  return out + sample.id + references;
}

// Takes a record apart; every step says whether there is that much of it.
class Record {
 public:
  explicit Record(std::string_view bytes) : bytes_(bytes) {}
  bool read(std::string_view& out, std::size_t size) {
    if (size > bytes_.size()) return false;
    out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }
  template <class Number>
  bool read(Number& number) {
    std::string_view bytes;
    if (!read(bytes, sizeof number)) return false;
    std::memcpy(&number, bytes.data(), sizeof number);
    return true;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

bool read_sample(std::string_view bytes, Sample& sample) {
  Record record(bytes);
  std::uint32_t tokens = 0;
  std::uint32_t prompt = 0;
  std::uint32_t id_bytes = 0;
  std::uint32_t references = 0;
  std::uint32_t reference_bytes = 0;
  if (!record.read(tokens) || !record.read(prompt) || !record.read(id_bytes) || !record.read(references) ||
      !record.read(reference_bytes)) {
    return false;
  }
  std::string_view ids;
  std::string_view targets;
  std::string_view id;
  if (!record.read(ids, std::size_t{4} * tokens) || !record.read(targets, tokens) || !record.read(id, id_bytes))
    return false;
  Record id_list(ids);
  for (std::int32_t token = 0; id_list.read(token);) sample.tokens.push_back(token);
  for (const char target : targets) sample.is_target.push_back(target != 0);
  sample.prompt_length = prompt;
  sample.id = id;
  for (; references > 0; --references) {
    std::uint32_t size = 0;
    std::string_view text;
    if (!record.read(size) || !record.read(text, size)) return false;
    sample.references.emplace_back(text);
  }
  return record.empty();
}

// The mapped file as a whole.
struct Mapped {
  explicit Mapped(const std::filesystem::path& path) : file(path) {}
  std::string_view bytes() const { return {reinterpret_cast<const char*>(file.data()), file.size()}; }
  bool is(const std::string& key) {
    Record record(bytes());
    std::string_view found;
    if (!record.read(head) || head.magic != Head{}.magic || !record.read(found, head.key_bytes) || found != key)
      return false;
    return head.samples < file.size() && head.offsets_at < file.size() &&
           head.offsets_at + 8 * (head.samples + 1) == file.size();
  }
  std::uint64_t offset(std::uint64_t sample) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes().data() + head.offsets_at + 8 * sample, sizeof value);
    return value;
  }
  MappedFile file;
  Head head;
};

class CachedSource final : public DataSource {
 public:
  CachedSource(std::shared_ptr<const DataSource> source, const TokenCache& cache)
      : source_(std::move(source)), path_(cache.file.string()), mapped_(cache.file) {
    if (!mapped_.is(cache.key) || mapped_.head.samples != static_cast<std::uint64_t>(source_->size())) fail();
  }
  std::int64_t size() const override { return source_->size(); }
  Sample get(std::int64_t index) const override {
    const auto at = static_cast<std::uint64_t>(index);
    const auto begin = mapped_.offset(at);
    const auto end = mapped_.offset(at + 1);
    Sample sample;
    if (begin > end || end > mapped_.head.offsets_at ||
        !read_sample(mapped_.bytes().substr(begin, end - begin), sample))
      fail();
    return sample;
  }
  // Its tokens depend on more than the file's key says.
  Sample question(std::int64_t index, std::int64_t most) const override { return source_->question(index, most); }
  monitor::Values score(const Sample& sample, const std::string& text) const override {
    return source_->score(sample, text);
  }
  std::size_t answer_end(std::string_view text) const override { return source_->answer_end(text); }
  std::vector<std::int64_t> end_ids() const override { return source_->end_ids(); }

 private:
  [[noreturn]] void fail() const {
    throw Error("this token cache is broken", "remove it: the next run makes it again", path_);
  }
  std::shared_ptr<const DataSource> source_;
  std::string path_;
  Mapped mapped_;
};

}  // namespace

TokenCache token_cache(const std::filesystem::path& folder, const std::string& name, std::string key) {
  std::ostringstream file;
  file << name << '-' << std::hex << std::setfill('0') << std::setw(16) << hash_of(key) << ".tokens";
  return {folder / file.str(), std::move(key)};
}

bool is_built(const TokenCache& cache) { return is_there(cache.file) && Mapped(cache.file).is(cache.key); }

TokenCacheBuilder::TokenCacheBuilder(std::shared_ptr<const DataSource> source, TokenCache cache)
    : source_(std::move(source)), cache_(std::move(cache)) {}

TokenCacheBuilder::~TokenCacheBuilder() {
  std::error_code ignored;
  if (!unfinished_.empty()) std::filesystem::remove(unfinished_, ignored);
}

void TokenCacheBuilder::throw_unwritable() const {
  throw Error(cat("cannot write the token cache: ", meaning_of(errno)),
              "free some space, or set data.cache to another folder", cache_.file.string());
}

void TokenCacheBuilder::write(const std::string& bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out_) throw_unwritable();
}

void TokenCacheBuilder::begin() {
  std::error_code ignored;
  std::filesystem::create_directories(cache_.file.parent_path(), ignored);  // what is wrong shows when it is written
  unfinished_ = cache_.file.string() + cat(".", std::random_device()());    // nodes may share the folder
  out_.open(unfinished_, std::ios::binary | std::ios::trunc);
  std::string head;
  put(head, Head{});
  write(head + cache_.key);
  offsets_.push_back(head.size() + cache_.key.size());
}

void TokenCacheBuilder::finish() {
  std::string table;
  for (const auto offset : offsets_) put(table, offset);
  write(table);
  Head head;
  head.key_bytes = cache_.key.size();
  head.samples = static_cast<std::uint64_t>(source_->size());
  head.offsets_at = offsets_.back();
  std::string bytes;
  put(bytes, head);
  out_.seekp(0);
  write(bytes);
  out_.close();
  std::error_code fault;
  if (out_) std::filesystem::rename(unfinished_, cache_.file, fault);
  if (!out_ || fault) throw_unwritable();
  unfinished_.clear();
}

bool TokenCacheBuilder::advance(std::chrono::milliseconds budget) {
  const auto until = std::chrono::steady_clock::now() + budget;
  if (done_ == 0 && is_built(cache_)) done_ = source_->size();
  if (done_ == source_->size() && offsets_.empty()) return true;
  if (offsets_.empty()) begin();
  while (done_ < source_->size() && std::chrono::steady_clock::now() < until) {
    const auto record = record_of(source_->get(done_++));
    write(record);
    offsets_.push_back(offsets_.back() + record.size());
  }
  if (done_ < source_->size()) return false;
  finish();
  offsets_.clear();
  return true;
}

std::shared_ptr<DataSource> open_cached(std::shared_ptr<const DataSource> source, const TokenCache& cache) {
  return std::make_shared<CachedSource>(std::move(source), cache);
}

}  // namespace capstan::data
