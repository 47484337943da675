#include "stream.h"

#include "rows.h"

#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "streams/best_fit.h"
#include "streams/tokenize.h"
#include "tables/decoded_rows.h"

namespace stream {

using namespace capstan;
namespace fs = std::filesystem;
using streams::TokenFile;

namespace {

data::FileKind token_files() {
  return {"rows", "a file of tokens or texts", "name a file of tokens (Megatron's .bin and .idx, or flat) or of texts"};
}

// All that a tokenizer's ids depend on, as far as it can be asked: its tokens, and what it makes of some texts.
std::string key_of(const tokenizer::Tokenizer& tokenizer, streams::TextReader& texts) {
  auto key = cat(tokenizer.name(), "\n", tokenizer.end_id(), "\n");
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) key += tokenizer.decode({id}) + "\n";
  const auto put = [&](const std::vector<std::int64_t>& ids) {
    for (const auto id : ids) key += cat(id, " ");
  };
  put(tokenizer.prefix_ids());
  streams::TextBatch batch;
  if (texts.next(batch)) texts.each(batch, [&](std::string_view text) { put(tokenizer.encode(text)); });
  return key;
}

// Says now and then how far it is.
class Told {
 public:
  Told(std::string path, std::int64_t total) : path_(std::move(path)), total_(total) {}
  void operator()(const streams::TokenizeProgress& progress) {
    constexpr std::chrono::seconds between{10};
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < between) return;
    last_ = now;
    log::info(cat(path_, ": ", 100 * progress.text_bytes / std::max<std::int64_t>(1, total_), " % tokenized, ",
                  thousands(progress.tokens), " tokens"));
  }

 private:
  std::string path_;
  std::int64_t total_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// What a file's documents are, for a key. Of a flat file only its size and time, since it may have terabytes.
std::string key_of(const TokenFile& file, const std::string& path) {
  if (file.index() != nullptr)
    return path.ends_with(".tokens") ? path : data::content_key(streams::pair_of(path).index);
  return cat(fs::absolute(path).string(), " ", file.byte_of(file.size()), " ",
             fs::last_write_time(path).time_since_epoch().count());
}

// What the option that names Megatron's pair does not say of it. Its tokens may have terabytes.
std::string content_of(const std::string& path) {
  const auto pair = streams::pair_of(path);
  return cat("an index of ", trim(data::content_key(pair.index)), " and ", fs::file_size(pair.tokens),
             " bytes of tokens");
}

// A wrong vocabulary shows in the first tokens, mostly.
void look_at(const streams::TokenStream& stream) {
  constexpr std::int64_t some = 65536;
  const auto size = stream.size();
  std::vector<std::int64_t> ids, begins;
  stream.read(0, std::min(some, size), ids, begins);
  if (size > some) stream.read(size - some, some, ids, begins);
}

void refuse_second_end(const TokenFile& file, std::int64_t end, const std::string& option, const std::string& where) {
  constexpr std::int64_t some = 16;
  std::vector<std::int64_t> last;
  for (std::int64_t i = 0; i < std::min(some, file.index()->documents()); ++i) {
    const auto stop = file.index()->begin(i + 1);
    if (stop > file.index()->begin(i)) file.read(stop - 1, 1, last);
  }
  if (std::find(last.begin(), last.end(), end) == last.end()) return;
  throw Error(cat(option, " is true, and documents of ", file.path(), " end with the end token, ", end, ", already"),
              "take it out", where);
}

}  // namespace

StreamData::Kind StreamData::kind_of(const std::string& path) const {
  if (streams::is_text(path)) return Kind::text;
  const bool is_flat = options_->dtype || (is_file(path) && TokenFile::is_of_llmc(path));
  return is_flat ? Kind::flat : Kind::megatron;
}

bool StreamData::uses_tokenizer() const {
  auto files = options_->eval_files;
  files.push_back(options_->train);
  files.push_back(options_->eval);
  return options_->append_end.value_or(false) || std::any_of(files.begin(), files.end(), streams::is_text);
}

// Megatron's files may be named by what both begin with.
bool StreamData::is_there(const data::SplitFile& split, Diagnostics& diagnostics) const {
  const auto pair = streams::pair_of(split.path);
  if (!split.path.empty() && (is_file(pair.tokens) || is_file(pair.index))) return true;
  return split.is_there(token_files(), diagnostics);
}

TokenFile StreamData::tokens_of(const std::string& path) const {
  if (kind_of(path) == Kind::megatron) return TokenFile::megatron(path);
  return TokenFile::flat(path, options_->dtype ? streams::type_named(*options_->dtype) : std::nullopt);
}

fs::path StreamData::folder() const {
  fs::path folder = options_->derived;
  if (folder.empty()) folder = data::derived_folder(data::process_environment());
  if (!folder.empty()) return folder;
  throw Error("there is no folder for what is made of it: HOME is not set", "set data.derived to a folder",
              options_.section().origin.text());
}

streams::TextInput StreamData::texts_of(const std::string& path) const {
  return {path, options_->text, options_->separator, options_->derived, {options_->python}};
}

fs::path StreamData::tokenized(const std::string& path, const tokenizer::Tokenizer& tokenizer) const {
  const auto input = texts_of(path);
  const streams::TokenizeRules rules{.has_end = options_->append_end.value_or(true)};
  auto key = cat("1\n", input.key, "\n", input.separator, "\n", rules.has_end, "\n");
  Diagnostics faults;
  for (const auto& file : tables::files_in(path, "data", path, faults)) key += data::content_key(file) + "\n";
  faults.throw_if_any();
  key += key_of(tokenizer, *streams::open_texts(input));
  const data::DerivedFile file{folder(), fs::path(path).stem().string() + ".tokens", key,
                               "set data.derived to another folder"};
  return data::derive(file, [&](const fs::path& unfinished) {
    const auto texts = streams::open_texts(input);
    log::info(cat(path, ": tokenizing into ", file.path().string()));
    streams::StreamWriter writer(unfinished, streams::type_for(tokenizer.vocab_size()));
    streams::tokenize_all(*texts, tokenizer, rules, writer, Told(path, texts->total()));
    if (writer.documents() == 0) throw Error("it holds no text", "name a file with texts", path);
    writer.finish_joined();
  });
}

streams::StreamRules StreamData::rules(const TokenFile& file, Kind kind, const data::SplitRequest& request) const {
  streams::StreamRules rules{.vocab_size = request.vocab_size, .ends_documents = options_->end_id.value_or(-1)};
  if (kind != Kind::megatron || !options_->append_end.value_or(false)) return rules;
  const auto member = &StreamOptions::append_end;
  rules.appended = request.tokenizer->end_id();
  if (rules.appended < 0) {
    throw Error(
        cat(options_.name(member), " is true, and the tokenizer '", request.tokenizer->name(), "' has no end token"),
        "take it out, or name a tokenizer that has one", options_.where(member));
  }
  refuse_second_end(file, rules.appended, options_.name(member), options_.where(member));
  return rules;
}

std::shared_ptr<data::DataSource> StreamData::open(const data::SplitRequest& request) const {
  const auto chosen = data::requested_file(options_, request);
  Diagnostics diagnostics;
  const bool is_there_to_read = is_there(chosen, diagnostics);
  diagnostics.throw_if_any();
  if (!is_there_to_read) return nullptr;
  if (request.max_length < 2) {
    throw Error("a row of 1 token predicts none", "use max_length = 2 or more",
                options_.where(&StreamOptions::max_length));
  }
  const auto kind = kind_of(chosen.path);
  const auto path = kind == Kind::text ? tokenized(chosen.path, *request.tokenizer).string() : chosen.path;
  const auto file = kind == Kind::text ? TokenFile::joined(path, chosen.path) : tokens_of(path);
  const auto said = rules(file, kind, request);
  const auto stream = std::make_shared<streams::TokenStream>(file, said);
  look_at(*stream);
  RowRules rows{.most = request.max_length, .apart = options_->attend == "document"};
  if (kind == Kind::megatron) rows.content = content_of(path);
  if (options_->fill == "best_fit") {
    const auto key = cat("1\n", key_of(file, path), "\n", said.appended, " ", said.ends_documents, " ", rows.most, " ",
                         options_->window);
    const data::DerivedFile plan{folder(), fs::path(chosen.path).stem().string() + ".rows", key,
                                 "set data.derived to another folder"};
    rows.planned = std::make_shared<streams::RowFile>(data::derive(plan, [&](const fs::path& unfinished) {
      streams::RowFile::write(unfinished,
                              [&](const auto& take) { streams::best_fit(*stream, rows.most, options_->window, take); });
    }));
  }
  auto source = std::make_shared<RowSource>(stream, std::move(rows));
  if (!chosen.is_enough(source->held(), token_files(), diagnostics)) diagnostics.throw_if_any();
  source->use(chosen.samples.value_or(source->held()));
  return source;
}

}  // namespace stream

CAPSTAN_DATA("stream", "1.0", "rows of documents for continued pretraining: files of tokens, or of texts",
             stream::StreamData, stream::StreamOptions)
