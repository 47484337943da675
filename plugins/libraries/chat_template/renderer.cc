#include "renderer.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>
#include <capstan/data_parts/subprocess.h>

#include <string_view>
#include <utility>

namespace chat_template {

using namespace capstan;
namespace fs = std::filesystem;

extern const char* const script;

namespace {

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? std::string() : found->text();
}

std::optional<std::string> optional_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? std::nullopt : std::optional(found->text());
}

const std::string& name_of(const Source& source) { return source.file.empty() ? source.folder : source.file; }

// What the worker says is wrong, at the file and line that it names.
[[noreturn]] void refuse(const Json& fault, const Source& source) {
  auto place = text_in(fault, "file");
  if (place.empty()) place = name_of(source);
  const auto line = fault.find("line");
  if (line != fault.end() && line->is_number_integer()) place += cat(":", line->get<std::int64_t>());
  throw Error(text_in(fault, "what"), text_in(fault, "fix"), place);
}

std::string request_text(const Source& source) {
  const Json request{{"folder", source.folder},
                     {"file", source.file},
                     {"name", source.name},
                     {"variables", source.variables},
                     {"date", source.date ? Json(*source.date) : Json()},
                     {"learn", "answers"},
                     {"interactive", true}};  // so that the first row without an answer is the one it is at
  return request.dump() + "\n";
}

/// One worker, from its first line to its end.
class Worker {
 public:
  Worker(const Source& source, const Rows& rows)
      : source_(source), rows_(rows), python_(python_program(source.python)) {}

  Head run() {
    const Program program{.arguments = {python_, "-c", script},
                          .input = request_text(source_),
                          .more_input = [this] { return more(); },
                          .on_output = [this](std::string_view piece) { take(piece); },
                          .patience = source_.patience};
    const auto ended = started(program);
    if (!head_ || answered_ < given_ || !ended.succeeded()) refuse_end(ended);
    return *head_;
  }

 private:
  EndedProgram started(const Program& program) const {
    try {
      return run_program(program);
    } catch (const Error& error) {
      if (has_begun_) throw;  // a callback's
      throw Error(cat("a chat template is rendered by Python: ", error.diagnostics().front().what),
                  "install python3 and jinja2, or activate an environment that has them", name_of(source_));
    }
  }

  // Enough for the worker to be busy.
  std::string more() {
    constexpr std::size_t enough = std::size_t{1} << 15;
    has_begun_ = true;
    std::string lines;
    while (lines.size() < enough) {
      auto row = rows_.next();
      if (!row) break;
      (*row)["row"] = given_++;
      lines += row->dump() + "\n";
    }
    return lines;
  }

  void take(std::string_view piece) {
    has_begun_ = true;
    for (auto end = piece.find('\n'); end != piece.npos; end = piece.find('\n')) {
      line_ += piece.substr(0, end);
      piece.remove_prefix(end + 1);
      read(try_parse_json(line_));
      line_.clear();
    }
    line_ += piece;
    constexpr std::size_t longest = std::size_t{1} << 28;  // the worker refuses rows that are nearly as long
    if (line_.size() > longest) throw Error("the template writes without an end", advice, where());
  }

  void read(const Json& json) {
    if (!json.is_object()) return;  // the end says what is missing
    if (const auto fault = json.find("fault"); !head_ && fault != json.end()) refuse(*fault, source_);
    if (!head_) {
      head_ = head_in(json);
      return;
    }
    rows_.take(json);
    ++answered_;
  }

  // The place of the row that it is at.
  std::string where() const { return answered_ < given_ ? rows_.where(answered_) : name_of(source_); }

  [[noreturn]] void refuse_end(const EndedProgram& ended) const {
    const bool is_at_row = head_ && answered_ < given_;
    const auto at = is_at_row ? cat("while ", head_->template_file, " wrote this row, ")
                              : std::string("a chat template is rendered by Python, and ");
    throw Error(cat(at, python_, " ", ended.text(), ended.last_words()),
                is_at_row && ended.is_hung ? advice : "try again, or with another python3", where());
  }

  static constexpr const char* advice = "look at the template for a loop without an end, or take the row out";
  const Source& source_;
  const Rows& rows_;
  std::string python_;
  bool has_begun_ = false;
  std::string line_;
  std::optional<Head> head_;
  std::int64_t given_ = 0;
  std::int64_t answered_ = 0;
};

std::string text_of(const Json& answer) {
  std::string text;
  for (const auto& piece : rendered_in(answer).pieces) text += piece.text;
  return text;
}

bool config_has_template(const fs::path& file) {
  return is_file(file) && read_file(file).find("\"chat_template\"") != std::string::npos;
}

}  // namespace

bool has_template(const fs::path& folder) {
  if (folder.empty() || !is_folder(folder)) return false;
  return is_file(folder / "chat_template.jinja") || is_file(folder / "chat_template.json") ||
         config_has_template(folder / "tokenizer_config.json") || is_folder(folder / "additional_chat_templates");
}

Head head(const Source& source) {
  return render(source, {[] { return std::nullopt; }, [](const Json&) {}, {}});
}

Json json_of(const Head& head) {
  return {{"template", head.template_file},  {"source", head.source},
          {"turn_end", head.turn_end},       {"generation_prompt", head.generation_prompt},
          {"begins_with", head.begins_with}, {"date", head.date ? Json(*head.date) : Json()},
          {"variables", head.variables}};
}

Head head_in(const Json& json) {
  Head head{text_in(json, "template"),
            text_in(json, "source"),
            text_in(json, "turn_end"),
            text_in(json, "generation_prompt"),
            text_in(json, "begins_with"),
            optional_text(json, "date"),
            {}};
  if (const auto found = json.find("variables"); found != json.end() && found->is_array())
    head.variables = found->get<std::vector<std::string>>();
  return head;
}

std::string state_of(const Source& source) {
  auto state = cat(script, "\n", source.name, "\n", source.variables.dump(), "\n", source.date.value_or(""), "\n");
  const auto add = [&](const fs::path& file) {
    if (is_file(file)) state += cat(file.filename().string(), " ", data::content_key(file));
  };
  if (!source.file.empty()) add(source.file);
  const fs::path folder = source.folder;
  if (folder.empty()) return state;
  for (const auto* name :
       {"chat_template.jinja", "chat_template.json", "tokenizer_config.json", "special_tokens_map.json"})
    add(folder / name);
  for (const auto& file : entries_if_there(folder / "additional_chat_templates")) add(file);
  return state;
}

std::string ask(const Source& source, const Json& conversation) {
  return ask(source, std::vector<Json>{conversation}).front();
}

std::vector<std::string> ask(const Source& source, const std::vector<Json>& conversations) {
  std::vector<std::string> texts;
  std::size_t given = 0;
  const auto where = [](std::int64_t row) { return cat("conversation ", row + 1); };
  const auto next = [&]() -> std::optional<Json> {
    if (given == conversations.size()) return {};
    auto row = conversations[given++];
    row["ask"] = true;
    return row;
  };
  const auto take = [&](const Json& answer) {
    if (auto fault = fault_in(answer)) {
      fault->where = where(static_cast<std::int64_t>(texts.size()));
      throw Error(std::vector<Diagnostic>{std::move(*fault)});
    }
    texts.push_back(text_of(answer));
  };
  render(source, {next, take, where});
  return texts;
}

Head render(const Source& source, const Rows& rows) { return Worker(source, rows).run(); }

std::optional<Diagnostic> fault_in(const Json& answer) {
  const auto fault = answer.find("fault");
  if (fault == answer.end()) return {};
  return Diagnostic{{}, text_in(*fault, "what"), text_in(*fault, "fix")};
}

Rendered rendered_in(const Json& answer) {
  Rendered out;
  for (const auto& piece : answer.at("pieces")) out.pieces.push_back({piece.at(0).text(), piece.at(1).get<int>() != 0});
  out.prompt = answer.at("prompt").get<std::size_t>();
  out.answer = optional_text(answer, "answer");
  for (const auto& name : answer.value("dropped", Json::array())) out.dropped.push_back(name.text());
  return out;
}

}  // namespace chat_template
