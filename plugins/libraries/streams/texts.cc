#include "texts.h"

#include <capstan/base/encoding.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "tables/decoded_rows.h"

namespace streams {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t bytes_at_once = std::size_t{1} << 20;
constexpr std::size_t most_bytes = std::size_t{256} << 20;  // of a document

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// The text that a line or a row has under a key.
std::string text_of(std::string_view line, const std::string& key, const std::string& where) {
  const auto json =
      parse_json(line, "not a JSON object", cat(R"(write one object a line, such as {")", key, R"(": "…"})"), where);
  if (!json.is_object() || !json.contains(key) || !json.at(key).is_string()) {
    const bool is_null = json.is_object() && json.contains(key) && json.at(key).is_null();
    if (is_null) return {};  // tables whose rows lack a text are written so
    throw Error(cat("there is no text under '", key, "'"),
                "name the key or column that has it (data.text, or --text of capstan tokenize), or take the line out",
                where);
  }
  return json.at(key).text();
}

// Calls with each line and its number.
template <class Call>
void each_line(const TextBatch& batch, const Call& call) {
  auto number = batch.first;
  for (std::size_t begin = 0; begin < batch.bytes.size(); ++number) {
    const auto end = std::min(batch.bytes.find('\n', begin), batch.bytes.size());
    const auto line = std::string_view(batch.bytes).substr(begin, end - begin);
    if (!is_blank(line)) call(line, number);
    begin = end + 1;
  }
}

/// A file that is read in stretches, each of which ends where one of its parts does.
class Stretches {
 public:
  // `end`: what parts end with; empty: the file is one part.
  Stretches(std::string path, std::string end)
      : path_(std::move(path)), end_(std::move(end)), in_(path_, std::ios::binary) {
    std::error_code fault;
    size_ = static_cast<std::int64_t>(fs::file_size(path_, fault));
    if (!in_ || fault) throw FileError(path_, "read", fault ? fault.value() : errno);
    if (size_ == 0) throw Error("it is empty", "name a file with text", path_);
  }
  std::int64_t size() const { return size_; }
  bool next(std::string& out) {
    while (!is_ended_) {
      const auto old = rest_.size();
      rest_.resize(old + bytes_at_once);
      in_.read(rest_.data() + old, static_cast<std::streamsize>(bytes_at_once));
      if (in_.bad()) throw FileError(path_, "read", errno);
      rest_.resize(old + static_cast<std::size_t>(in_.gcount()));
      is_ended_ = in_.eof();
      if (old == 0) refuse_utf16();
      // What was there before has no end in it: of several the last one was taken.
      const auto from = old - std::min(old, end_.size());
      const auto found = end_.empty() ? std::string_view::npos : std::string_view(rest_).substr(from).rfind(end_);
      if (found != std::string_view::npos && !is_ended_) return take(out, from + found + end_.size());
      if (rest_.size() > most_bytes) refuse_long();
    }
    return take(out, rest_.size());
  }

 private:
  bool take(std::string& out, std::size_t bytes) {
    out.assign(rest_, 0, bytes);
    rest_.erase(0, bytes);
    done_ += static_cast<std::int64_t>(bytes);
    return bytes > 0;
  }
  void refuse_utf16() const {
    if (done_ > 0) return;
    if (const auto fault = utf16_fault(rest_); !fault.empty()) throw Error(fault, "write the text in UTF-8", path_);
  }
  [[noreturn]] void refuse_long() const {
    throw Error(
        cat("a document has more than ", bytes_text(static_cast<double>(most_bytes)), ", from byte ", done_, " on"),
        "say what stands between documents (data.separator, or --separator of capstan tokenize), or write one a "
        "line as JSON",
        path_);
  }

  std::string path_;
  std::string end_;
  std::ifstream in_;
  std::int64_t size_ = 0;
  std::string rest_;
  bool is_ended_ = false;
  std::int64_t done_ = 0;
};

class JsonLines final : public TextReader {
 public:
  explicit JsonLines(const TextInput& input) : input_(input), stretches_(input.path, "\n") {}
  bool next(TextBatch& batch) override {
    batch.first = line_;
    const bool is_there = stretches_.next(batch.bytes);
    line_ += std::count(batch.bytes.begin(), batch.bytes.end(), '\n');
    return is_there;
  }
  void each(const TextBatch& batch, const std::function<void(std::string_view)>& call) const override {
    each_line(batch, [&](std::string_view line, std::int64_t number) {
      const auto text = text_of(line, input_.key, cat(input_.path, ":", number));
      if (!is_blank(text)) call(text);
    });
  }
  std::int64_t total() const override { return stretches_.size(); }

 private:
  TextInput input_;
  Stretches stretches_;
  std::int64_t line_ = 1;
};

class PlainText final : public TextReader {
 public:
  explicit PlainText(const TextInput& input) : input_(input), stretches_(input.path, input.separator) {}
  bool next(TextBatch& batch) override { return stretches_.next(batch.bytes); }
  void each(const TextBatch& batch, const std::function<void(std::string_view)>& call) const override {
    const auto& between = input_.separator;
    for (std::string_view rest = batch.bytes; !rest.empty();) {
      const auto end = between.empty() ? rest.npos : rest.find(between);
      const auto text = rest.substr(0, end);
      if (!is_blank(text)) call(text);
      rest.remove_prefix(end == rest.npos ? rest.size() : end + between.size());
    }
  }
  std::int64_t total() const override { return stretches_.size(); }

 private:
  TextInput input_;
  Stretches stretches_;
};

class Tables final : public TextReader {
 public:
  explicit Tables(const TextInput& input) : key_(input.key), rows_(tables_of(input)) {}
  bool next(TextBatch& batch) override {
    batch.first = row_;
    batch.bytes.clear();
    while (row_ < rows_.size() && batch.bytes.size() < bytes_at_once)
      batch.bytes.append(rows_.line(row_++)).append("\n");
    return !batch.bytes.empty();
  }
  void each(const TextBatch& batch, const std::function<void(std::string_view)>& call) const override {
    each_line(batch, [&](std::string_view line, std::int64_t row) {
      const auto text = text_of(line, key_, rows_.where(row));
      if (!is_blank(text)) call(text);
    });
  }
  std::int64_t total() const override {
    if (rows_.size() == 0) return 0;
    return rows_.line(rows_.size() - 1).data() + rows_.line(rows_.size() - 1).size() - rows_.line(0).data() + 1;
  }

 private:
  static tables::TableFiles tables_of(const TextInput& input) {
    Diagnostics faults;
    tables::TableFiles files{
        input.path, tables::files_in(input.path, "the texts", input.path, faults), {}, input.derived, input.python};
    faults.throw_if_any();
    return files;
  }

  std::string key_;
  tables::DecodedRows rows_;
  std::int64_t row_ = 0;
};

std::string ending_of(const std::string& path) { return lower(fs::path(path).extension().string()); }

bool is_json_lines(const std::string& path) { return ending_of(path) == ".jsonl" || ending_of(path) == ".json"; }

bool is_table(const std::string& path) {
  static const std::set<std::string> endings{".parquet", ".arrow", ".csv", ".tsv", ".gz", ".bz2", ".xz", ".zst"};
  return endings.contains(ending_of(path)) || is_folder(path);
}

}  // namespace

TextReader::~TextReader() = default;

bool is_text(const std::string& path) {
  static const std::set<std::string> plain{".txt", ".text", ".md"};
  return is_json_lines(path) || is_table(path) || plain.contains(ending_of(path));
}

std::unique_ptr<TextReader> open_texts(const TextInput& input) {
  if (is_table(input.path)) return std::make_unique<Tables>(input);
  if (is_json_lines(input.path)) return std::make_unique<JsonLines>(input);
  return std::make_unique<PlainText>(input);
}

}  // namespace streams
