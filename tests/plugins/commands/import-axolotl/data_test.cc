#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <filesystem>

#include "axolotl_file.h"
#include "config/files.h"
#include "support/folder.h"

namespace data_test {

using namespace capstan;
using test::axolotl_faults;
using test::import_axolotl_text;

namespace {

std::string sets(const std::string& rows, const std::string& more = {}) {
  return cat(R"("datasets": [)", rows, "]", more.empty() ? "" : ",\n", more);
}

std::string toml(const std::string& rows, const std::string& more = {}) {
  return import_axolotl_text(sets(rows, more)).toml;
}

std::string chat(const std::string& members) {
  return cat(R"({"path": "org/rows", "type": "chat_template")", members.empty() ? "" : ", ", members, "}");
}

}  // namespace

TEST_CASE("a data set of the hub is named as it is, with configuration, revision and split") {
  const auto hub =
      toml(R"({"path": "org/rows", "name": "main", "revision": "abc", "split": "train[:500]", "type": "completion"})");
  for (const char* line : {"plugin = \"parquet\"", "dataset = \"org/rows@abc\"", "config = \"main\"",
                           "train_split = \"train\"", "train_samples = 500"})
    CHECK_THAT(hub, Contains(cat("\n", line)));
  CHECK_THAT(toml(R"({"path": "org/rows", "split": "train[:5%]"})"), Contains("\n# train_samples = 1000  # choose"));
  CHECK_THAT(toml(R"({"path": "org/rows", "split": "train+test"})"), Contains("\n# train_split = \"train\"  # choose"));
  CHECK_THAT(toml(R"({"path": "org/rows", "data_files": "a.jsonl"})"),
             Contains("`hf download --repo-type dataset org/rows a.jsonl`"));
}

TEST_CASE("a file is read by jsonl or parquet") {
  CHECK_THAT(toml(R"({"path": "rows.jsonl"})"),
             Contains("\nplugin = \"jsonl\"") && Contains("\ntrain = \"rows.jsonl\""));
  CHECK_THAT(toml(R"({"path": "rows.json", "ds_type": "json"})"), Contains("\nplugin = \"parquet\""));
  CHECK_THAT(toml(R"({"path": "json", "data_files": ["a.jsonl"]})"),
             Contains("\nplugin = \"jsonl\"") && Contains("\ntrain = \"a.jsonl\""));
  CHECK_THAT(toml(R"({"path": "./rows"})"), Contains("\ntrain = \"./rows\""));
  CHECK_THAT(toml(R"({"path": "s3://bucket/a.jsonl"})"), Contains("\n# train = \"FILE\"  # choose: download it"));
}

TEST_CASE("paths start where the TOML stands") {
  const test::WorkingFolder work;
  work.write("rows/a.jsonl", "{}\n");
  const auto file = test::axolotl_file(test::least_and(sets(R"({"path": "rows/a.jsonl"})", R"("output_dir": "out")")));
  const auto toml = import_axolotl::translate(file, {.folder = "configs"}).toml;
  CHECK_THAT(toml, Contains("\ntrain = \"../rows/a.jsonl\"") && Contains("\ndir = \"../out\""));
}

TEST_CASE("texts and messages are found under other names") {
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "completion", "field": "chapter"})"),
             Contains("\ncolumns = [\"text = chapter\"]"));
  CHECK_THAT(toml(chat("")), !Contains("columns"));
  CHECK_THAT(toml(chat(R"("field_messages": "turns")")), Contains("\ncolumns = [\"messages = turns\"]"));
  const std::string mapping = R"("message_property_mappings": {"role": "from", "content": "value"})";
  CHECK_THAT(toml(chat(R"("field_messages": "conversations", )" + mapping)), !Contains("columns"));
  CHECK_THAT(toml(chat(R"("field_messages": "conversation", )" + mapping)),
             Contains("\ncolumns = [\"conversations = conversation\"]"));
  CHECK_THAT(toml(chat(R"("message_field_role": "from", "message_field_content": "value")")),
             Contains("\ncolumns = [\"conversations = messages\"]"));
  CHECK_THAT(toml(chat(R"("message_property_mappings": {"role": "who", "content": "says"})")),
             Contains("these have who and says"));
}

TEST_CASE("the chat template is the tokenizer's, axolotl's own, or to be chosen") {
  CHECK_THAT(toml(chat("")), Contains("\nchat_template = \"model\"  # datasets[0].type"));
  CHECK_THAT(toml(chat(""), R"("chat_template": "tokenizer_default")"),
             Contains("\nchat_template = \"model\"  # chat_template, line 3"));
  CHECK_THAT(toml(chat(""), R"("chat_template": "chatml")"),
             Contains(R"(turn = "<|im_start|>{role}\n{content}<|im_end|>\n")") && !Contains("chat_template ="));
  CHECK_THAT(toml(chat(R"("chat_template": "llama3")"), R"("chat_template": "chatml")"),
             Contains("<|start_header_id|>"));
  CHECK_THAT(toml(chat(""), R"("chat_template": "qwen3")"),
             Contains("\n# chat_template = \"model\"  # choose") && Contains("qwen3.jinja"));
  CHECK_THAT(toml(chat(""), R"("chat_template_jinja": "{{ messages }}")"),
             Contains("choose: save axolotl's text as a file"));
  CHECK_THAT(toml(chat(""), R"("chat_template_kwargs": {"enable_thinking": false})"),
             Contains(R"(template_variables = ["enable_thinking = false"])"));
  const test::Folder templates;
  auto file = test::axolotl_file(test::least_and(sets(chat(""), R"("chat_template": "qwen3")")));
  file.templates = std::filesystem::path(templates.write("qwen3.jinja", "{}")).parent_path().string();
  CHECK_THAT(import_axolotl::translate(file, {}).toml,
             Contains(cat("\nchat_template_file = \"", file.templates, "/qwen3.jinja\"")));
}

TEST_CASE("Alpaca's prompts are written out, and end with the tokenizer's token") {
  const auto open = toml(R"({"path": "org/rows", "type": "alpaca"})");
  CHECK_THAT(open, Contains(R"(user_turn = "Below is an instruction that describes a task. Write a response that )"
                            R"(appropriately completes the request.\n\n### Instruction:\n{content}\n\n")"));
  CHECK_THAT(open, Contains(R"(# assistant_turn = "### Response:\n{content}</s>"  # choose)"));
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "alpaca"})", R"("special_tokens": {"eos_token": "<|e|>"})"),
             Contains("\nassistant_turn = \"### Response:\\n{content}<|e|>\""));
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "alpaca:chat"})"), Contains("\\nUSER: {content}\\n"));
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "alpaca:odd"})"), Contains("in the style odd"));
  const test::Folder model;
  model.write("tokenizer_config.json", R"({"eos_token": {"content": "</end>"}})");
  const auto folder = std::filesystem::path(model.write("config.json", "{}")).parent_path().string();
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "alpaca"})", cat(R"("base_model": ")", folder, '"')),
             Contains("\nassistant_turn = \"### Response:\\n{content}</end>\""));
}

TEST_CASE("a prompt of the user's own fields") {
  const auto own =
      toml(R"({"path": "a.jsonl", "type": {"field_instruction": "q", "field_output": "a", "system_prompt": "Help.",
"format": "[INST] {instruction} {input} [/INST]", "no_input_format": "[INST] {instruction} [/INST]"}})",
           R"("special_tokens": {"eos_token": "</s>"})");
  CHECK_THAT(own, Contains("\ncolumns = [\"instruction = q\", \"output = a\"]") &&
                      Contains("\nuser_turn = \"Help.[INST] {content} [/INST]\"") &&
                      Contains("\nassistant_turn = \"{content}</s>\""));
  CHECK_THAT(toml(R"({"path": "a.jsonl", "type": {"format": "{input}"}})"),
             Contains("\n# user_turn = ") && Contains("choose"));
  CHECK_THAT(toml(R"({"path": "a.jsonl", "type": "jeopardy"})"),
             Contains("\n# columns = ") && Contains("type jeopardy"));
}

TEST_CASE("what bears loss is the assistant's or all; the rest is refused") {
  CHECK_THAT(toml(chat(""), R"("train_on_inputs": true)"), Contains("\nloss = \"sequence\""));
  CHECK_THAT(toml(chat(R"("roles_to_train": ["assistant"], "train_on_eos": "turn")")), !Contains("loss ="));
  for (const char* members : {R"("roles_to_train": ["user"])", R"("train_on_eos": "last")", R"("train_on_eot": "all")",
                              R"("roles": {"assistant": ["bot"]})", R"("message_field_training": "train")",
                              R"("drop_system_message": true)", R"("field_thinking": "thoughts")"}) {
    INFO(members);
    CHECK(axolotl_faults(sets(chat(members))).size() == 1);
  }
  CHECK(axolotl_faults(sets(chat(R"("roles": {"user": ["human", "user"], "assistant": ["gpt"]})"))).empty());
}

TEST_CASE("samples that are too long are dropped, refused, or to be chosen") {
  CHECK_THAT(toml(chat("")), Contains("\ntoo_long = \"drop\"  # axolotl's default"));
  CHECK_THAT(toml(chat(""), R"("excess_length_strategy": "raise")"), Contains("\ntoo_long = \"error\""));
  CHECK_THAT(toml(chat(""), R"("excess_length_strategy": "truncate")"), Contains("\n# too_long = \"cut\"  # choose"));
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "completion"})"),
             Contains("\n# too_long = \"cut\"  # choose: axolotl makes several"));
}

TEST_CASE("several data sets are sources; their weights are to be chosen") {
  const auto two = toml(R"({"path": "a/rows", "type": "chat_template"}, {"path": "b/rows", "type": "chat_template"})",
                        R"("val_set_size": 0.05, "sample_packing": true)");
  CHECK_THAT(two, Contains("\n[[data.sources]]\nplugin = \"parquet\"") && Contains("\nname = \"rows\"") &&
                      Contains("\nname = \"rows-2\"") && Contains("\n# weight = 1.0  # choose"));
  CHECK_THAT(two, Contains("\n[data]\npacking = true") && Contains("\neval_fraction = 0.05"));
  CHECK(two.find("[data]") < two.find("[[data.sources]]"));
}

TEST_CASE("what is evaluated: a share, another split, files, or to be chosen") {
  const std::string rows = R"({"path": "org/rows", "type": "chat_template"})";
  CHECK_THAT(toml(rows, R"("val_set_size": 0.02)"), Contains("\neval_fraction = 0.02  # val_set_size"));
  CHECK_THAT(toml(rows, R"("val_set_size": 500)"), Contains("\n# eval_fraction = 0.02  # choose"));
  CHECK_THAT(toml(rows, R"("val_set_size": 0.0)"), !Contains("eval"));
  CHECK_THAT(toml(rows, R"("test_datasets": [{"path": "org/rows", "type": "chat_template", "split": "test"}])"),
             Contains("\neval_split = \"test\""));
  CHECK_THAT(toml(rows, R"("test_datasets": [{"path": "org/other", "type": "chat_template"}])"),
             Contains("\n# eval = "));
  CHECK_THAT(toml(R"({"path": "a.jsonl"})", R"("test_datasets": [{"path": "b.jsonl"}, {"path": "c.jsonl"}])"),
             Contains("\neval = \"b.jsonl\"") && Contains("\neval_files = [\"c.jsonl\"]"));
}

TEST_CASE("pairs have conversations, or columns to be chosen") {
  const std::string rl = R"("rl": "dpo")";
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "chat_template.argilla", "field_chosen": "good"})", rl),
             Contains("\ncolumns = [\"chosen = good\"]") && Contains("\nchat_template = \"model\""));
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "chat_template.default", "field_messages": "conversation"})", rl),
             Contains("\ncolumns = [\"prompt = conversation\"]") && Contains("takes single messages"));
  CHECK_THAT(toml(R"({"path": "org/rows", "type": "chatml.intel"})", rl), Contains("\n# columns = "));
}

}  // namespace data_test
