#pragma once
#include <capstan/command/arguments.h>

#include <optional>
#include <string>
#include <vector>

#include "chat_template/renderer.h"

namespace asking {

/// What the command line says of how questions are written.
struct Given {
  std::string system;                  ///< the first message
  std::string file;                    ///< a template in place of the model's own
  std::vector<std::string> variables;  ///< "NAME=VALUE"

  bool empty() const { return system.empty() && file.empty() && variables.empty(); }
};

/// How long answers may be where a turn's end ends them, as an option that others win over.
inline constexpr const char* long_answers = "train.max_new_tokens=1024";

/// Declares them: --system, --template and --template-variable.
void declare(capstan::command::Arguments& arguments, Given& given);

/// By what a model is asked.
struct Way {
  std::optional<chat_template::Source> source;  ///< its chat template; nothing: it has none
  bool is_run = false;                          ///< the model is a run's or a checkpoint's
  bool has_learned = false;                     ///< the template wrote the run's training data
};

/// Finds it without Python and without the model. `model`: as the command line names it; `config`: the run's
/// configuration, empty for a model's folder or hub id. Throws Error for a variable that is none.
Way way_of(const std::string& model, const std::string& config, const capstan::command::Call& call, const Given& given);

/// What is known of the template. Throws Error for a variable of the command line that it does not read, too.
chat_template::Head head_of(const chat_template::Source& source, const Given& given);

/// "NAME=VALUE": what a template reads under the name, VALUE as JSON where it is some, else as a text.
void add_variable(capstan::Json& variables, const std::string& text);

}  // namespace asking
