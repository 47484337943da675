// Conversations as the model's own chat template writes them: the worker of plugins/libraries/chat_template beside
// transformers' apply_chat_template, for the templates that TRL carries and some in the manner of others.
#include <capstan_catch.h>

#include "parity/python.h"

namespace chat_templates_test {

TEST_CASE("conversations are rendered byte for byte as transformers renders them", "[transformers4]") {
  run_python("chat_templates.py", {"rendering"});
}

TEST_CASE("what bears loss is what the model writes, for each template by hand") {
  run_python("chat_templates.py", {"losses"});
}

TEST_CASE("what bears loss is what templates mark with generation tags, without the prompt") {
  run_python("chat_templates.py", {"generation"});
}

TEST_CASE("a template is found where transformers finds it, with its tokens, variables and date", "[transformers4]") {
  run_python("chat_templates.py", {"files"});
}

TEST_CASE("damaged files and templates that raise, print megabytes or fill the memory are told") {
  run_python("chat_templates.py", {"faults"});
}

TEST_CASE("a turn of a long conversation costs what one of a short conversation costs") {
  run_python("chat_templates.py", {"speed"});
}

}  // namespace chat_templates_test
