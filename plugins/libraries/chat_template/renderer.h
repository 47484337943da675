#pragma once
#include <capstan/base/json.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace chat_template {

/// A model's own chat template, and what it is rendered with. Python renders it, with jinja2, in a process of its own.
struct Source {
  std::string folder;     ///< the model's, which also says what its special tokens are; empty: `file` alone
  std::string file = {};  ///< a template in place of the folder's
  std::string name = {};  ///< which of a folder's several templates; empty: the default one
  capstan::Json variables = capstan::Json::object();  ///< what templates read besides messages: enable_thinking
  std::optional<std::string> date = {};               ///< today's for the template, as "2026-11-29"; not set: today
  std::string python = {};                            ///< empty: that of $VIRTUAL_ENV, else python3 of PATH
  std::chrono::milliseconds patience{30000};          ///< without a sign of life: then it hangs
};

/// A part of a rendered text.
struct Piece {
  std::string text;
  bool bears_loss = false;
};

/// A conversation as the template writes it.
struct Rendered {
  std::vector<Piece> pieces;               ///< one after the other they are all of the text
  std::size_t prompt = 0;                  ///< how many of them the last answer is generated from; 0: nothing is asked
  std::optional<std::string> answer = {};  ///< what is expected after them
  std::vector<std::string> dropped = {};   ///< "messages[3].reasoning_content": what the text does not have
};

/// What is known of a template before it renders anything.
struct Head {
  std::string template_file;        ///< where it was found
  std::string source;               ///< a hash of its bytes and of the special tokens that it may write
  std::string turn_end;             ///< what ends a turn of the assistant's, such as "<|im_end|>"; empty: nothing does
  std::string generation_prompt;    ///< what is written before an answer
  std::string begins_with;          ///< the begin token that it writes; empty: none
  std::optional<std::string> date;  ///< the one that it shows; not set: it shows none
  std::vector<std::string> variables;  ///< that it reads besides the standard ones
};

/// Whether a model's folder has a template. Fast: Python is not asked.
bool has_template(const std::filesystem::path& folder);

/// Throws Error, as all of the following do, where there is no template, Python or jinja2, at the template for what is
/// wrong with it, and where Python dies or hangs.
Head head(const Source& source);

/// As JSON, and from it.
capstan::Json json_of(const Head& head);
Head head_in(const capstan::Json& json);

/// All that renderings depend on besides the conversations and, without a date, the day: the bytes of the files too.
std::string state_of(const Source& source);

/// The text from which a conversation's next message is generated: {"messages", "tools"?, "documents"?, "variables"?}.
std::string ask(const Source& source, const capstan::Json& conversation);
/// Those of several. What the template says of one of them is an Error that begins with its number, counted from 1.
std::vector<std::string> ask(const Source& source, const std::vector<capstan::Json>& conversations);

/// Rows on their way through the template.
struct Rows {
  /// The next one: {"messages", "tools"?, "documents"?, "variables"?}; nothing: there is none.
  std::function<std::optional<capstan::Json>()> next;
  /// Gets what became of each, in the same order: rendered_in() reads it.
  std::function<void(const capstan::Json& answer)> take;
  /// What messages call a row, counted from 0.
  std::function<std::string(std::int64_t row)> where;
};

/// Renders all rows; only a few are in memory at once. What `next` and `take` throw ends it. A row at which
/// Python dies or hangs is named.
Head render(const Source& source, const Rows& rows);

/// What is wrong with a row by its answer; nothing: it is rendered.
std::optional<capstan::Diagnostic> fault_in(const capstan::Json& answer);
Rendered rendered_in(const capstan::Json& answer);

}  // namespace chat_template
