#include "jsonl_data.h"

#include "cut_tally.h"
#include "keys.h"
#include "label.h"
#include "mapped_lines.h"
#include "numbers.h"
#include "teacher.h"
#include "template_options.h"

#include <capstan/base/counted.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_options.h>

#include <algorithm>
#include <map>

namespace jsonl {

using namespace capstan;

namespace {

data::FileKind json_lines() { return {"lines", "a file of JSON lines", "name a file of JSON lines"}; }

// Few texts have more tokens than bytes. Templates add theirs to each message; an instruction makes two.
std::size_t most_tokens(std::string_view line, std::size_t bytes_of_turn) {
  std::size_t messages = 2;
  for (const std::string_view role : {R"("role")", R"("from")"}) {
    for (auto at = line.find(role); bytes_of_turn > 0 && at != line.npos; at = line.find(role, at + 1)) ++messages;
  }
  return line.size() + messages * bytes_of_turn;
}

std::size_t longest_turn(const Turns& turns) {
  auto most = turns.any.size();
  for (const auto& turn : {turns.system, turns.user, turns.assistant}) most = std::max(most, turn.value_or("").size());
  return most;
}

// The lines that may be too long, those of most bytes first.
std::vector<std::int64_t> long_lines(const Rows& file, std::int64_t lines, const Turns& turns, std::int64_t most) {
  std::vector<std::pair<std::size_t, std::int64_t>> found;
  const auto bytes_of_turn = longest_turn(turns);
  for (std::int64_t i = 0; i < lines; ++i) {
    auto tokens = most_tokens(file.line(i), bytes_of_turn);
    if (turns.renderings) tokens = std::max(tokens, turns.renderings->size(i));
    if (static_cast<std::int64_t>(tokens) > most) found.emplace_back(tokens, i);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::int64_t> order;
  for (const auto& [tokens, line] : found) order.push_back(line);
  return order;
}

// A line that is too long would end a run at the step that meets it: those that may be are looked at before the first
// one, the longest first, and of a file of very many no more than takes some ten seconds.
// Returns what is to be said of those that are cut.
std::string refuse_too_long(const Rows& file, const JsonlSource& source, const Turns& turns, std::int64_t most) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  constexpr std::size_t most_named = 10;
  std::map<std::int64_t, Diagnostic> faults;
  std::size_t bytes = 0;
  bool is_part = false;
  CutTally tally(source);
  for (const auto line : long_lines(file, source.size(), turns, most)) {
    is_part = bytes > most_bytes;
    if (is_part) break;
    bytes += file.line(line).size();
    try {
      source.get(line);
      tally.add(line);
    } catch (const Error& error) {
      const auto& first = error.diagnostics().front();
      if (first.where != file.where(line)) throw;  // a tokenizer's
      faults.emplace(line, first);
    }
  }
  if (faults.empty()) {
    const auto text = tally.text(file, most);
    return text.empty() || !is_part ? text : text + ". Only the longest lines were looked at: there may be more";
  }
  std::vector<Diagnostic> named;
  for (const auto& [line, fault] : faults) {
    if (named.size() < most_named) named.push_back(fault);
  }
  if (faults.size() > named.size())
    named.back().what += cat(" (and ", faults.size() - named.size(), " more such lines)");
  throw Error(std::move(named));
}

// The pieces of a rendering do not say which of them are a message's that bears no loss.
void refuse_silent(const Record& record, const std::string& where) {
  const std::string_view form = record.form;
  if (!record.conversation.is_object() || (form != "messages" && form != "conversations")) return;
  for (const auto& message : record.conversation.at("messages")) {
    if (message.contains("weight")) {
      throw Error(
          R"(a message has weight 0, and data.loss is "sequence", by which all that a template writes bears loss)",
          "take the weight out, or data.loss", where);
    }
  }
}

// The keys that nothing reads, each with the first line that has it.
class UnknownKeys {
 public:
  explicit UnknownKeys(const Filters& filters) : filters_(filters) {}

  void add(const std::vector<std::string>& keys, const Rows& file, std::int64_t index) {
    for (const auto& key : keys) {
      if (!filters_.reads(key)) first_.try_emplace(key, index);
    }
    file_ = &file;
  }

  /// Metadata is no fault, but a key may be one that was meant.
  void warn() const {
    if (first_.empty()) return;
    std::vector<std::string> named;
    for (const auto& [key, index] : first_) named.push_back(cat("'", key, "' (", file_->name(index), ")"));
    constexpr std::size_t most_named = 20;
    const auto more = named.size() > most_named ? cat(" and ", named.size() - most_named, " more") : std::string();
    named.resize(std::min(named.size(), most_named));
    log::warning(cat(file_->path(), ": nothing reads these keys, named with their first lines: ", join(named), more));
  }

 private:
  const Filters& filters_;
  const Rows* file_ = nullptr;
  std::map<std::string, std::int64_t> first_;
};

// What the rows of a file are taken for. A file of several kinds may be one by mistake.
class Forms {
 public:
  void add(const std::string& form) { ++rows_[form]; }
  void tell(const Rows& file) const {
    std::vector<std::string> parts;
    for (const auto& [form, rows] : rows_) parts.push_back(cat(counted(rows, "row"), " with ", form));
    if (parts.empty()) return;
    std::vector<std::string> read;
    for (const auto& [key, column] : file.columns().entries()) read.push_back(cat(column, " is read as ", key));
    const auto level = parts.size() > 1 ? log::Level::warning : log::Level::info;
    log::write(level, cat(file.path(), ": ", join(parts), read.empty() ? "" : "; ", join(read)));
  }

 private:
  std::map<std::string, std::int64_t> rows_;
};

}  // namespace

void JsonlOptions::describe(config::OptionTable<JsonlOptions>& t) {
  data::describe_split_files(
      t,
      R"(file to train on, a JSON object a line: {"prompt", "completion"}, {"messages": [{"role", "content"}]}, )"
      R"({"text"}, {"conversations": [{"from", "value"}]} or {"instruction", "input", "output"}; "id" may be added)",
      "file to evaluate on, in the same format", json_lines());
  describe_samples(t);
}

void JsonlOptions::describe_samples(config::OptionTable<JsonlOptions>& t) {
  data::describe_derived(t, &JsonlOptions::python, &JsonlOptions::derived);
  describe_selection(t);
  t.add("loss", &JsonlOptions::loss)
      .choices({"answer", "sequence"})
      .doc(
          "which tokens bear loss: completions and the assistant's turns with what ends them, or everything. Of a text "
          "it is always everything");
  t.add("pairs", &JsonlOptions::pairs)
      .doc(
          R"(a line has two answers to a prompt, {"prompt", "chosen", "rejected"}, which are texts or lists of messages; )"
          R"(without "prompt" the answers are conversations that begin with the same messages. Such a sample has two )"
          R"(sequences, for objectives that compare them)");
  t.add("labels", &JsonlOptions::labels)
      .doc(
          R"(a line says whether its answer is wanted, {"prompt", "completion", "label"}, for the objective kto. Such a )"
          "sample has two sequences: the prompt with its completion, and with that of the nearest line before it that "
          "has another prompt");
  t.add("numbers", &JsonlOptions::numbers)
      .doc(
          "keys of a line under which it has numbers for objectives, a list with one for each sequence: the sums of "
          "log-probabilities that a reference gave a pair's answers, say, as \"reference_log_probability\"");
  t.add("teacher_words", &JsonlOptions::teacher_words)
      .min(0)
      .doc(
          "how many of a teacher's likeliest words a line has for each token that bears loss, as lists "
          "\"teacher_words\" "
          "and \"teacher_log_probabilities\", from which the objective distill learns; 0: none");
  t.add("columns", &JsonlOptions::columns)
      .doc(
          "columns that are read as a form's keys, each as \"KEY = COLUMN\": [\"prompt = question\", \"completion = "
          "answer\"]");
  describe_template(t);
  describe_turns(t);
}

std::vector<config::FileKeys> JsonlOptions::file_keys() { return all_keys(); }

data::FileKind JsonlData::kind() const { return json_lines(); }

std::vector<data::SplitFile> JsonlData::files(Diagnostics& diagnostics) const {
  return data::all_files(options_, diagnostics);
}

data::SplitFile JsonlData::file_of(const data::SplitRequest& request) const {
  return data::requested_file(options_, request);
}

std::shared_ptr<Rows> JsonlData::rows(const data::SplitFile& split, Diagnostics& diagnostics) const {
  if (!split.is_there(json_lines(), diagnostics)) return nullptr;
  auto file = std::make_shared<MappedLines>(split.path);
  if (const auto fault = file->encoding_fault(); !fault.empty()) {
    diagnostics.add(split.path, fault, cat("write JSON lines in UTF-8, and name that file as ", split.key));
    return nullptr;
  }
  return file;
}

// The file of a split; null when the options name none, or when it added a fault.
std::shared_ptr<const Rows> JsonlData::read(const data::SplitFile& split, Diagnostics& diagnostics) const {
  const auto file = kept(rows(split, diagnostics), diagnostics);
  Diagnostics said;  // by check
  if (file) file->rename(columns(said));
  return file && split.is_enough(file->size(), kind(), diagnostics) ? file : nullptr;
}

Columns JsonlData::columns(Diagnostics& diagnostics) const {
  const auto member = &JsonlOptions::columns;
  return {options_->columns, options_.name(member), options_.where(member), diagnostics};
}

// A column that no row has is a mistyped one: its key would be absent, which some keys may be.
void JsonlData::check_columns(const Rows& file, Diagnostics& diagnostics) const {
  for (const auto& [key, column] : file.columns().entries()) {
    const auto quoted = cat('"', column, '"');
    std::int64_t row = 0;
    while (row < file.size() && file.line(row).find(quoted) == std::string_view::npos) ++row;
    if (row < file.size()) continue;
    diagnostics.add(options_.where(&JsonlOptions::columns),
                    cat(options_.name(&JsonlOptions::columns), " reads '", column, "' as ", key, ", and no row of ",
                        file.path(), " has it"),
                    "name a column of the file");
  }
}

// Every line is read, so that a broken one shows before anything is expensive; the first few that are wrong are named.
void JsonlData::check_lines(const Rows& file, const Turns& turns, const Filters& filters,
                            Diagnostics& diagnostics) const {
  constexpr int most = 10;
  int faults = 0;
  UnknownKeys unknown(filters);
  Forms forms;
  for (std::int64_t i = 0; i < file.size() && faults < most; ++i) {
    try {
      if (options_->pairs) {
        unknown.add(read_pair(file, i, turns, options_->known_keys()).chosen.others, file, i);
        forms.add("a chosen and a rejected answer");
      } else {
        const auto record = read_record(file, i, turns, options_->known_keys());
        if (options_->labels) read_label(file, i, record);
        if (options_->loss == "sequence") refuse_silent(record, file.where(i));
        unknown.add(record.others, file, i);
        forms.add(record.form);
        if (options_->teacher_words > 0) read_teacher(file, i, options_->teacher_words);
      }
      read_numbers(file, i, options_->numbers, form().sequences);
    } catch (const Error& error) {
      ++faults;
      for (const auto& diagnostic : error.diagnostics()) diagnostics.add(diagnostic);
    }
  }
  unknown.warn();
  forms.tell(file);
}

void JsonlData::check(Diagnostics& diagnostics) const {
  const auto before = diagnostics.size();
  const auto written = turns_of(options_, diagnostics);
  columns(diagnostics);
  const auto conditions = filters(diagnostics);
  const bool usable = diagnostics.size() == before;
  const auto all = files(diagnostics);
  for (const auto& one : all) {
    const auto file = read(one, diagnostics);
    if (!file || !usable) continue;
    check_columns(*file, diagnostics);
    check_lines(*file, written, conditions, diagnostics);
  }
  check_sequences(diagnostics);
  data::require_file(all[0], all[1], options_.section().origin.text(), kind(), diagnostics);
}

Turns JsonlData::written_of(const data::SplitRequest& request, const std::shared_ptr<const Rows>& file,
                            std::int64_t samples) const {
  Diagnostics said;  // by check
  auto turns = turns_of(options_, said);
  if (!turns.by_model || !Conversations(*file, options_->pairs, turns).any(samples)) return turns;
  turns.renderings = std::make_shared<const Renderings>(render_request(options_, request, file, samples));
  refuse_unread_variables(options_, turns.renderings->head());
  for (const auto& warning : warnings_of(*turns.renderings, *file, *request.tokenizer)) warn_once(warning);
  return turns;
}

std::shared_ptr<data::DataSource> JsonlData::open(const data::SplitRequest& request) const {
  const auto chosen = file_of(request);
  Diagnostics diagnostics;
  turns_of(options_, diagnostics);
  const auto file = read(chosen, diagnostics);
  diagnostics.throw_if_any();
  if (!file) return nullptr;
  const auto samples = chosen.samples.value_or(file->size());
  const auto written = written_of(request, file, samples);
  const Conversations conversations(*file, options_->pairs, written);
  auto source = source_of(file, samples, written, request, options_->labels);
  warn_of_ends(*source, *file, *request.tokenizer, conversations, end_warnings_);
  if (options_->too_long == "drop")
    return without_long_lines(source, lengths_of(file, samples, written, request), *file, request);
  warn_once(refuse_too_long(*file, *source, written, request.max_length));
  return source;
}

}  // namespace jsonl
