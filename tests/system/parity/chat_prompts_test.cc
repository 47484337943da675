// The tokens that an answer is generated from, by a model's chat template, are those of transformers.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "parity/python.h"
#include "plugins/libraries/chat_template/renderer.h"
#include "support/tokenizer_files.h"

namespace chat_prompts_test {

using namespace capstan;

TEST_CASE("the ids of a conversation are those of transformers' apply_chat_template") {
  const MadeFolder made("chat_prompts.py", {});
  const auto cases = Json::parse(read_file(made.path() / "cases.json"));
  CHECK(cases.size() == 12);
  for (const auto& one : cases) {
    const auto folder = (made.path() / one.at("folder").text()).string();
    const chat_template::Source source{.folder = folder, .python = parity_python().string()};
    const auto tokenizer = open_tokenizer(folder);
    const auto ids = tokenizer->encode(chat_template::ask(source, one.at("conversation")));
    INFO(one.dump());
    CHECK(ids == one.at("ids").get<std::vector<std::int64_t>>());
    // Where the template writes the begin token, the text has it once.
    const auto before = tokenizer->prefix_ids();
    if (before.empty()) continue;
    const auto has_it = one.at("folder") != Json("without_begin");
    CHECK((ids.front() == before.front()) == has_it);
    CHECK(ids.at(1) != before.front());
  }
}

}  // namespace chat_prompts_test
