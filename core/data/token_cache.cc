#include "data/token_cache.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/philox.h>
#include <capstan/base/text.h>
#include <capstan/data/order.h>

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iomanip>
#include <limits>
#include <random>
#include <string_view>
#include <utility>

#include "base/disk_wait.h"
#include "base/xxh64.h"

namespace capstan::data {
namespace {

// The file, in this machine's byte order: Head, the key, the samples, then a table: their offsets (samples + 1 of them)
// and the checksum of each. The head has those of the table, and of itself with the key: no byte is without one.
//
// A sample: five u32 (tokens, prompt length, bytes of the id, references, bytes of those), i32 tokens, a byte per token
// that says whether it is a target, the id, then each reference after its u32 length. Where it has other sequences or
// fields, there follow u32 sequences, each of u32 tokens, i32 tokens and a byte per token; then u32 fields, each of a
// byte for the type (FieldValues::index()), u32 values and these; then a u32 for each further document's first token.
struct Head {
  std::array<char, 8> magic{'c', 'a', 'p', 's', 't', 'o', 'k', '2'};
  std::uint64_t key_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t table_at = 0;
  std::uint64_t table_sum = 0;
  std::uint64_t sum = 0;  // checksum of the head with 0 here, and of the key
};

constexpr std::uint64_t table_bytes(std::uint64_t samples) { return 8 * (2 * samples + 1); }

std::uint64_t sum_of(std::string_view bytes) {
  return xxh64(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
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

void put_sequence(std::string& out, const std::vector<std::int64_t>& tokens, const std::vector<bool>& is_target) {
  for (const auto token : tokens) put(out, static_cast<std::int32_t>(token));
  for (const bool target : is_target) out += target ? '\1' : '\0';
}

std::string rest_of(const Sample& sample) {
  std::string out;
  if (sample.others.empty() && sample.fields.empty() && sample.begins.empty()) return out;
  put_size(out, sample.others.size());
  for (const auto& [tokens, is_target] : sample.others) {
    put_size(out, tokens.size());
    put_sequence(out, tokens, is_target);
  }
  put_size(out, sample.fields.size());
  for (const auto& field : sample.fields) {
    out += static_cast<char>(field.index());
    std::visit(
        [&](const auto& values) {
          put_size(out, values.size());
          for (const auto value : values) put(out, value);
        },
        field);
  }
  for (const auto begin : sample.begins) put_size(out, begin);
  return out;
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
  put_sequence(out, sample.tokens, sample.is_target);
  return out + sample.id + references + rest_of(sample);
}

// Parses a record; every step says whether enough bytes are left.
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
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

bool read_sequence(Record& record, std::uint32_t size, std::vector<std::int64_t>& tokens,
                   std::vector<bool>& is_target) {
  std::string_view ids;
  std::string_view targets;
  if (!record.read(ids, std::size_t{4} * size) || !record.read(targets, size)) return false;
  Record id_list(ids);
  for (std::int32_t token = 0; id_list.read(token);) tokens.push_back(token);
  for (const char target : targets) is_target.push_back(target != 0);
  return true;
}

template <class Number>
bool read_values(Record& record, std::uint32_t size, FieldValues& field) {
  if (sizeof(Number) * std::size_t{size} > record.left()) return false;
  std::vector<Number> values(size);
  for (auto& value : values) record.read(value);
  field = std::move(values);
  return true;
}

bool read_field(Record& record, FieldValues& field) {
  char type = 0;
  std::uint32_t size = 0;
  if (!record.read(type) || !record.read(size)) return false;
  if (type == 0) return read_values<std::int64_t>(record, size, field);
  return type == 1 && read_values<float>(record, size, field);
}

// Other sequences, fields and documents, where there are any.
bool read_rest(Record& record, Sample& sample) {
  std::uint32_t count = 0;
  if (record.empty()) return true;
  if (!record.read(count)) return false;
  for (; count > 0; --count) {
    auto& other = sample.others.emplace_back();
    std::uint32_t size = 0;
    if (!record.read(size) || !read_sequence(record, size, other.tokens, other.is_target)) return false;
  }
  if (!record.read(count)) return false;
  for (; count > 0; --count) {
    if (!read_field(record, sample.fields.emplace_back())) return false;
  }
  for (std::uint32_t begin = 0; record.read(begin);) sample.begins.push_back(begin);
  return true;
}

bool read_sample(std::string_view bytes, Sample& sample) {
  Record record(bytes);
  std::uint32_t tokens = 0, prompt = 0, id_bytes = 0;
  std::uint32_t references = 0, reference_bytes = 0;
  if (!record.read(tokens) || !record.read(prompt) || !record.read(id_bytes) || !record.read(references) ||
      !record.read(reference_bytes)) {
    return false;
  }
  std::string_view id;
  if (!read_sequence(record, tokens, sample.tokens, sample.is_target) || !record.read(id, id_bytes)) return false;
  sample.prompt_length = prompt;
  sample.id = id;
  for (; references > 0; --references) {
    std::uint32_t size = 0;
    std::string_view text;
    if (!record.read(size) || !record.read(text, size)) return false;
    sample.references.emplace_back(text);
  }
  return read_rest(record, sample) && record.empty();
}

std::uint64_t head_sum(Head head, std::string_view key) {
  head.sum = 0;
  std::string bytes;
  put(bytes, head);
  bytes += key;
  return sum_of(bytes);
}

// Who can write a file can give it checksums that fit. So it counts only if it is this user's, root's, or the folder's
// owner's, and if no other user may write it. Empty: that is so.
std::string writer_of(const std::filesystem::path& file) {
  struct stat info {};
  struct stat folder {};
  if (::stat(file.c_str(), &info) != 0 || ::stat(file.parent_path().c_str(), &folder) != 0)
    throw FileError(file, "look at", errno);
  if ((info.st_mode & S_IWOTH) != 0) return "others may have changed it: every user of this machine may write it";
  if (info.st_uid == ::geteuid() || info.st_uid == 0 || info.st_uid == folder.st_uid) return {};
  return cat("others may have changed it: its user ", info.st_uid, " is neither you nor the owner of its folder");
}

// The mapped file as a whole.
class Mapped {
 public:
  explicit Mapped(const std::filesystem::path& path) : file_(path) {}
  // What is wrong with the head, the key or the table of a file of this key; empty: nothing. Samples are not checked.
  std::string fault(const TokenCache& cache) {
    if (auto stranger = writer_of(cache.file); !stranger.empty()) return stranger;
    Record record(bytes());
    std::string_view key;
    if (!record.read(head_)) return "it is cut off";
    if (head_.magic != Head{}.magic || !record.read(key, head_.key_bytes) || head_sum(head_, key) != head_.sum)
      return "its head is not what was written";
    if (key != cache.key) return "it was made for other data";
    samples_at_ = sizeof head_ + key.size();
    const auto expected = head_.table_at + table_bytes(head_.samples);
    if (file_.size() != expected) return cat("it has ", file_.size(), " bytes instead of ", expected);
    if (sum_of(bytes().substr(head_.table_at)) != head_.table_sum) return "its table is not what was written";
    return {};
  }
  std::uint64_t samples() const { return head_.samples; }
  // Called only for a file without such a fault. False: the sample's bytes are damaged.
  bool read(std::uint64_t sample, std::string_view& record) const {
    const auto begin = number(sample);
    const auto end = number(sample + 1);
    if (begin < samples_at_ || begin > end || end > head_.table_at) return false;
    record = bytes().substr(begin, end - begin);
    return sum_of(record) == number(head_.samples + 1 + sample);
  }

 private:
  std::string_view bytes() const { return {reinterpret_cast<const char*>(file_.data()), file_.size()}; }
  std::uint64_t number(std::uint64_t index) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes().data() + head_.table_at + 8 * index, sizeof value);
    return value;
  }
  MappedFile file_;
  Head head_;
  std::uint64_t samples_at_ = 0;
};

class CachedSource final : public DataSource {
 public:
  CachedSource(std::shared_ptr<const DataSource> source, const TokenCache& cache)
      : source_(std::move(source)), path_(cache.file), mapped_(cache.file) {
    if (const auto fault = mapped_.fault(cache); !fault.empty()) fail(fault);
    if (mapped_.samples() != static_cast<std::uint64_t>(source_->size()))
      fail(cat("it has ", counted(mapped_.samples(), "sample"), " instead of ", source_->size()));
  }
  std::int64_t size() const override { return source_->size(); }
  Sample get(std::int64_t index) const override {
    CAPSTAN_ASSERT(index >= 0 && index < size());
    const DiskWait at_disk("reading", path_);
    std::string_view record;
    Sample sample;
    if (!mapped_.read(static_cast<std::uint64_t>(index), record) || !read_sample(record, sample))
      fail(cat("sample ", index, " is not what was written"));
    return sample;
  }
  // Its tokens depend on more than the file's key.
  Sample question(std::int64_t index, std::int64_t most) const override { return source_->question(index, most); }
  monitor::Values score(const Sample& sample, const std::string& text) const override {
    return source_->score(sample, text);
  }
  std::size_t answer_end(std::string_view text) const override { return source_->answer_end(text); }
  std::vector<std::int64_t> end_ids() const override { return source_->end_ids(); }
  std::string content() const override { return source_->content(); }
  std::unique_ptr<SampleOrder> order(const OrderRequest& request) const override { return source_->order(request); }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error("this token cache is damaged: " + why,
                "start again: a run makes a damaged cache again before it reads from it. Where that does not last, "
                "set data.cache to a folder on another disk",
                path_.string());
  }
  std::shared_ptr<const DataSource> source_;
  std::filesystem::path path_;
  Mapped mapped_;
};

}  // namespace

// The file's name has a hash of the key, the file all of it.
TokenCache token_cache(const std::filesystem::path& folder, const std::string& name, std::string key) {
  std::ostringstream file;
  file << name << '-' << std::hex << std::setfill('0') << std::setw(16) << stable_hash(key) << ".tokens";
  return {folder / file.str(), std::move(key)};
}

// Verifies an existing file.
class TokenCacheCheck {
 public:
  TokenCacheCheck(const TokenCache& cache, std::uint64_t samples) : mapped_(cache.file), fault_(mapped_.fault(cache)) {
    if (fault_.empty() && mapped_.samples() != samples)
      fault_ = cat("it has ", mapped_.samples(), " samples instead of ", samples);
  }
  const std::string& fault() const { return fault_; }
  void check(std::uint64_t sample) {
    std::string_view record;
    if (!mapped_.read(sample, record)) fault_ = cat("sample ", sample, " is not what was written");
  }

 private:
  Mapped mapped_;
  std::string fault_;
};

TokenCacheBuilder::TokenCacheBuilder(std::shared_ptr<const DataSource> source, TokenCache cache)
    : source_(std::move(source)), cache_(std::move(cache)) {
  if (is_there(cache_.file))
    check_ = std::make_unique<TokenCacheCheck>(cache_, static_cast<std::uint64_t>(source_->size()));
}

TokenCacheBuilder::~TokenCacheBuilder() {
  std::error_code ignored;
  if (!unfinished_.empty()) std::filesystem::remove(unfinished_, ignored);
}

void TokenCacheBuilder::throw_unwritable() const {
  const int number = errno;
  const auto reason = meaning_of(number);
  throw Error(damage_.empty() ? cat("cannot write the token cache: ", reason)
                              : cat("the token cache is damaged and cannot be made again: ", reason),
              number == ENOSPC || number == EDQUOT ? "free some space, or set data.cache to another folder"
                                                   : "set data.cache to a folder that you may write to",
              cache_.file.string());
}

void TokenCacheBuilder::write(const std::string& bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out_) throw_unwritable();
}

void TokenCacheBuilder::begin() {
  std::error_code ignored;
  std::filesystem::create_directories(cache_.file.parent_path(), ignored);  // errors show when it is written
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
  for (const auto sum : sums_) put(table, sum);
  write(table);
  Head head;
  head.key_bytes = cache_.key.size();
  head.samples = static_cast<std::uint64_t>(source_->size());
  head.table_at = offsets_.back();
  head.table_sum = sum_of(table);
  head.sum = head_sum(head, cache_.key);
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

// True when there is nothing left to verify: the file is complete, or must be made.
bool TokenCacheBuilder::verify(std::chrono::steady_clock::time_point until) {
  constexpr std::int64_t between_looks = 256;  // at the clock
  while (check_->fault().empty() && done_ < source_->size()) {
    check_->check(static_cast<std::uint64_t>(done_++));
    if (done_ % between_looks != 0 || done_ == source_->size()) continue;
    if (check_->fault().empty() && std::chrono::steady_clock::now() >= until) return false;
  }
  whole_ = check_->fault().empty();
  if (!whole_) {
    damage_ = cat(cache_.file.string(), ": this token cache is damaged: ", check_->fault(), "; it is made again");
    done_ = 0;
  }
  check_.reset();
  return true;
}

bool TokenCacheBuilder::advance(std::chrono::milliseconds budget) {
  const DiskWait at_disk(check_ ? "verifying" : "writing", cache_.file);
  const auto until = std::chrono::steady_clock::now() + budget;
  if (check_ && !verify(until)) return false;
  if (whole_) return true;
  if (offsets_.empty()) begin();
  while (done_ < source_->size() && std::chrono::steady_clock::now() < until) {
    const auto record = record_of(source_->get(done_++));
    write(record);
    offsets_.push_back(offsets_.back() + record.size());
    sums_.push_back(sum_of(record));
  }
  if (done_ < source_->size()) return false;
  finish();
  whole_ = true;
  return true;
}

std::shared_ptr<DataSource> open_cached(std::shared_ptr<const DataSource> source, const TokenCache& cache) {
  return std::make_shared<CachedSource>(std::move(source), cache);
}

}  // namespace capstan::data
