#include "megatron_index.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace streams {

using namespace capstan;

namespace {

constexpr std::array<std::pair<std::uint8_t, TokenType>, 6> codes{{{1, TokenType::uint8},
                                                                   {2, TokenType::int8},
                                                                   {3, TokenType::int16},
                                                                   {4, TokenType::int32},
                                                                   {5, TokenType::int64},
                                                                   {8, TokenType::uint16}}};

constexpr const char* write_again = "write both files again with what made them: an index is complete only at its end";

}  // namespace

std::uint8_t IndexHead::code_of(TokenType type) {
  for (const auto& [code, known] : codes) {
    if (known == type) return code;
  }
  throw Error(cat("Megatron's files have no ", name_of(type)), "write int32 or int64");
}

MegatronIndex::MegatronIndex(std::string_view bytes, std::uint64_t token_bytes, FilePair files)
    : bytes_(bytes), files_(std::move(files)) {
  check_name();
  type_ = read_type();
  read_counts();
  check_sequences(token_bytes);
  check_documents();
  tokens_ = static_cast<std::int64_t>(token_bytes) / bytes_of(type_);
}

void MegatronIndex::fail(const std::string& what) const { throw Error(what, write_again, files_.index); }

template <class Number>
Number MegatronIndex::number(std::uint64_t at) const {
  Number value{};
  std::memcpy(&value, bytes_.data() + at, sizeof value);
  return value;
}

std::int64_t MegatronIndex::length(std::int64_t sequence) const {
  return number<std::int32_t>(IndexHead::bytes + 4 * static_cast<std::uint64_t>(sequence));
}

std::int64_t MegatronIndex::bytes_before(std::int64_t sequence) const {
  return number<std::int64_t>(IndexHead::bytes + 4 * static_cast<std::uint64_t>(sequences_) +
                              8 * static_cast<std::uint64_t>(sequence));
}

std::int64_t MegatronIndex::sequences_before(std::int64_t document) const {
  return number<std::int64_t>(documents_at() + 8 * static_cast<std::uint64_t>(document));
}

void MegatronIndex::check_name() const {
  if (!bytes_.starts_with(IndexHead::magic.substr(0, std::min(bytes_.size(), IndexHead::magic.size())))) {
    const bool is_older = bytes_.starts_with("TNTIDX");
    throw Error(is_older ? "it is an index of fairseq's older format"
                         : "it is no index of Megatron's, which begins with MMIDIDX",
                "name a file that Megatron's tools/preprocess_data.py or capstan tokenize --to stream made",
                files_.index);
  }
  if (bytes_.size() < IndexHead::bytes)
    fail(cat("it is cut off at byte ", bytes_.size(), " of ", IndexHead::bytes, " that its head has"));
  const auto at = IndexHead::magic.size();
  if (const auto version = number<std::uint64_t>(at); version != IndexHead::version)
    fail(cat("byte ", at, " says version ", version, ", and version 1 is the only one"));
}

TokenType MegatronIndex::read_type() const {
  constexpr auto at = IndexHead::magic.size() + 8;
  const auto code = number<std::uint8_t>(at);
  const auto known = std::find_if(codes.begin(), codes.end(), [&](const auto& entry) { return entry.first == code; });
  if (known != codes.end()) return known->second;
  const bool is_float = code == 6 || code == 7;
  throw Error(cat("byte ", at, " says that tokens are of type ", int{code},
                  is_float ? ", floating point numbers" : ", and the types are 1 to 8"),
              "name a file of token ids", files_.index);
}

void MegatronIndex::read_counts() {
  constexpr auto at = IndexHead::magic.size() + 9;
  const auto sequences = number<std::uint64_t>(at);
  const auto indices = number<std::uint64_t>(at + 8);
  const auto room = bytes_.size() - IndexHead::bytes;
  if (sequences > room / 12 || indices > (room - 12 * sequences) / 8) {
    fail(cat("it is cut off at byte ", bytes_.size(), ": its head promises ", sequences, " sequences and ", indices,
             " document indices"));
  }
  const auto rest = room - 12 * sequences - 8 * indices;
  if (rest != 0 && rest != sequences) fail(cat("it has ", rest, " bytes more than its head promises"));
  if (indices < 2 || sequences == 0) throw Error("it holds no documents", "name files with some", files_.index);
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(indices) - 1;
}

// Sequences of other places would make documents of tokens that do not follow one another.
void MegatronIndex::check_sequences(std::uint64_t token_bytes) const {
  const auto size = bytes_of(type_);
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const auto where = [&](std::uint64_t of_each, std::uint64_t first) {
      return cat("byte ", first + of_each * static_cast<std::uint64_t>(i), ": sequence ", i);
    };
    const auto lengths_at = IndexHead::bytes, pointers_at = lengths_at + 4 * static_cast<std::uint64_t>(sequences_);
    if (length(i) < 0) fail(cat(where(4, lengths_at), " has the length ", length(i)));
    if (bytes_before(i) != end) {
      fail(cat(where(8, pointers_at), " begins at byte ", bytes_before(i),
               " of the tokens, and those before it end at byte ", end));
    }
    end += length(i) * size;
  }
  if (static_cast<std::uint64_t>(end) == token_bytes) return;
  throw Error(cat("it has ", thousands(static_cast<std::int64_t>(token_bytes)), " bytes, and its index ", files_.index,
                  " is of ", thousands(end)),
              write_again, files_.tokens);
}

void MegatronIndex::check_documents() const {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i <= documents_; ++i) {
    const auto sequences = sequences_before(i);
    const bool is_end = i == documents_;
    if (sequences >= before && sequences <= sequences_ && (i > 0 || sequences == 0) &&
        (!is_end || sequences == sequences_)) {
      before = sequences;
      continue;
    }
    fail(cat("byte ", documents_at() + 8 * static_cast<std::uint64_t>(i), ": ",
             is_end ? std::string("its documents end") : cat("document ", i, " begins"), " at sequence ", sequences,
             " of ", sequences_, ", the one before at ", before));
  }
}

std::int64_t MegatronIndex::begin(std::int64_t document) const {
  const auto sequence = sequences_before(document);
  return sequence == sequences_ ? tokens_ : bytes_before(sequence) / bytes_of(type_);
}

}  // namespace streams
