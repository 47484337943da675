// What each key of a line means to Capstan. Keys that change what is meant, in the formats of OpenAI, Mistral,
// ShareGPT, Alpaca, TRL, axolotl and ms-swift, are refused; columns that merely describe a line are named once in a
// warning.
#include "keys.h"

#include <initializer_list>

namespace jsonl {
namespace {

using capstan::config::FileKey;
using capstan::config::FileKeys;
using Keys = std::vector<FileKey>;
using Use = FileKey::Use;

constexpr const char* as_text = R"(set data.chat_template = "model", whose template writes it, or take the line out)";
constexpr const char* no_text = "take the line out: samples are texts";
constexpr const char* loss_marks =
    "take the key out: data.loss, and the weights of the assistant's messages, say which tokens bear loss";
constexpr const char* weights =
    R"(write "weight": 0 or 1 at the assistant's messages, which says whether they bear loss)";

void add(Keys& keys, std::initializer_list<const char*> names, Use use, const char* words) {
  for (const auto* name : names) keys.push_back({name, use, words});
}

// What lines of every form may have.
Keys of_any() {
  Keys keys;
  add(keys, {"id"}, Use::used, "what the sample is called; a number's digits stay as they are");
  keys.push_back({"weight", Use::only, "take lines of weight 0 out, and write others as often as they count", {"1"}});
  add(keys, {"labels", "assistant_masks", "completion_mask", "loss_mask"}, Use::refused, loss_marks);
  add(keys, {"image", "images", "video", "videos", "audio", "audios"}, Use::refused, no_text);
  add(keys, {"source", "dataset", "split", "url", "language", "timestamp", "meta", "metadata", "score"}, Use::neutral,
      "it describes the line");
  return keys;
}

void add_teacher(Keys& keys) {
  add(keys, {"teacher_words", "teacher_log_probabilities"}, Use::used, "what a teacher says, with data.teacher_words");
}

// What a chat template writes besides messages. A {"text"} has it already.
void add_of_templates(Keys& keys) {
  add(keys, {"tools", "functions", "documents", "tool_calls", "function_call", "reasoning_content", "thinking"},
      Use::refused, as_text);
  add(keys, {"chat_template", "chat_template_kwargs"}, Use::refused,
      "take the key out: data.turn, or data.chat_template_file, is the template");
  add(keys, {"system"}, Use::refused, "write it as the first message, of the role system, or into the prompt");
  add(keys, {"history"}, Use::refused, "write it as messages before the others, or into the prompt");
  add(keys, {"parallel_tool_calls", "tool_choice"}, Use::neutral, "it is said to a server, and no template writes it");
}

FileKeys conversation() {
  FileKeys table{"a line {\"messages\"} of data.train", "OpenAI's and Mistral's form of conversations.", of_any(),
                 FileKeys::Unknown::named};
  add(table.keys, {"messages"}, Use::used, "the conversation");
  add_teacher(table.keys);
  add_of_templates(table.keys);
  return table;
}

FileKeys sharegpt() {
  FileKeys table{"a line {\"conversations\"} of data.train", "ShareGPT's form of conversations.", of_any(),
                 FileKeys::Unknown::named};
  add(table.keys, {"conversations"}, Use::used, "the conversation");
  add_teacher(table.keys);
  add_of_templates(table.keys);
  return table;
}

FileKeys alpaca() {
  FileKeys table{
      R"(a line {"instruction", "input", "output"} of data.train)",
      "Alpaca's form. Without a template the prompt is the instruction and its input, each with a blank line "
      "after it.",
      of_any(), FileKeys::Unknown::named};
  add(table.keys, {"instruction", "input", "output"}, Use::used,
      "what is asked, and of what, which may be empty; and what is learned");
  add_teacher(table.keys);
  add_of_templates(table.keys);
  return table;
}

FileKeys completion() {
  FileKeys table{R"(a line {"prompt", "completion"} of data.train)", "The form of prompts and what follows them.",
                 of_any(), FileKeys::Unknown::named};
  add(table.keys, {"prompt", "completion"}, Use::used, "what is asked, and what is learned");
  table.keys.push_back({"label",
                        Use::only,
                        "set data.labels = true and the objective kto, or give another meaning another name",
                        {"true", "1"}});
  add_teacher(table.keys);
  add_of_templates(table.keys);
  return table;
}

FileKeys text() {
  FileKeys table{"a line {\"text\"} of data.train",
                 "Running text, or text that another program's template has written.", of_any(),
                 FileKeys::Unknown::named};
  add(table.keys, {"text"}, Use::used, "what is learned");
  add(table.keys, {"label"}, Use::neutral, "it is the text's class");
  add(table.keys, {"instruction", "input", "output", "conversations", "tools"}, Use::neutral,
      "the text was made from it");
  add_teacher(table.keys);
  return table;
}

FileKeys pair() {
  FileKeys table{R"(a line {"prompt", "chosen", "rejected"} of data.train)", "Two answers, with data.pairs.", of_any(),
                 FileKeys::Unknown::named};
  add(table.keys, {"prompt", "chosen", "rejected"}, Use::used, "what is asked, and two answers to it");
  add(table.keys, {"completion", "messages", "text"}, Use::refused, "take it out, or write a line of its own");
  add(table.keys, {"score_chosen", "score_rejected", "chosen_score", "rejected_score", "prompt_id"}, Use::neutral,
      "it describes the pair, and no objective here learns from scores");
  add_of_templates(table.keys);
  return table;
}

FileKeys message() {
  FileKeys table{"a message of a line",
                 "OpenAI's and Mistral's messages. One that is empty, or null, counts as absent.",
                 {},
                 FileKeys::Unknown::named};
  add(table.keys, {"role", "content"}, Use::used, "what data.turn writes");
  add(table.keys, {"weight"}, Use::used, "0: this message of the assistant's bears no loss; 1, the default: it does");
  add(table.keys,
      {"tool_calls", "tool_call_id", "tool_name", "tools", "functions", "function_call", "name", "refusal",
       "reasoning_content", "reasoning", "thinking", "channel", "recipient"},
      Use::refused, as_text);
  add(table.keys, {"audio", "image", "images", "video", "videos", "audios"}, Use::refused, no_text);
  add(table.keys, {"from", "value"}, Use::used,
      "ShareGPT's names of role (human or user, gpt or assistant, system) and content");
  add(table.keys, {"loss", "loss_scale", "train", "training", "train_detail"}, Use::refused, weights);
  table.keys.push_back({"prefix", Use::only, "write the whole answer into one message", {"false"}});
  return table;
}

FileKeys rendered_line() {
  FileKeys table{
      "a line with a conversation, with data.chat_template",
      "What the model's own template writes besides messages, as an object or list, or as its JSON in a text.",
      {},
      FileKeys::Unknown::named};
  add(table.keys, {"tools"}, Use::used, "the functions that the model may call, as JSON schemas");
  add(table.keys, {"documents"}, Use::used, "texts that the answer is to go by");
  add(table.keys, {"chat_template_kwargs"}, Use::used,
      "variables of the template; they win over data.template_variables");
  return table;
}

FileKeys rendered_message() {
  FileKeys table{"a message of a line, with data.chat_template",
                 "The template gets all keys of a message but weight; a warning counts what it does not write.",
                 {},
                 FileKeys::Unknown::named};
  add(table.keys, {"tool_calls", "tool_call_id", "name", "reasoning_content", "reasoning", "thinking"}, Use::used,
      "what the template writes for it");
  return table;
}

FileKeys part() {
  FileKeys table{"a part of a message's content",
                 "OpenAI's list of parts; a single text is read as if it were the content.",
                 {},
                 FileKeys::Unknown::named};
  table.keys.push_back({"type", Use::only, no_text, {"\"text\""}});
  add(table.keys, {"text"}, Use::used, "the message's content");
  add(table.keys, {"cache_control"}, Use::neutral, "it is said to a server");
  return table;
}

FileKeys other_forms() {
  FileKeys table{"a line of another form",
                 "Where a line has none of the keys above, these say whose form it is.",
                 {},
                 FileKeys::Unknown::named};
  add(table.keys, {"conversation"}, Use::refused, R"(set data.columns = ["conversations = conversation"])");
  add(table.keys, {"query", "response", "question", "answer", "input", "output"}, Use::refused,
      R"(set data.columns, such as ["prompt = question", "completion = answer"])");
  add(table.keys, {"input_ids"}, Use::refused, "write texts: tokens are made here, by data.tokenizer");
  return table;
}

}  // namespace

const FileKeys& keys_of_conversation() {
  static const auto table = conversation();
  return table;
}

const FileKeys& keys_of_completion() {
  static const auto table = completion();
  return table;
}

const FileKeys& keys_of_sharegpt() {
  static const auto table = sharegpt();
  return table;
}

const FileKeys& keys_of_alpaca() {
  static const auto table = alpaca();
  return table;
}

const FileKeys& keys_of_text() {
  static const auto table = text();
  return table;
}

const FileKeys& keys_of_pair() {
  static const auto table = pair();
  return table;
}

const FileKeys& keys_of_message() {
  static const auto table = message();
  return table;
}

const FileKeys& keys_of_rendered_line() {
  static const auto table = rendered_line();
  return table;
}

const FileKeys& keys_of_rendered_message() {
  static const auto table = rendered_message();
  return table;
}

const FileKeys& keys_of_part() {
  static const auto table = part();
  return table;
}

const FileKeys& keys_of_other_forms() {
  static const auto table = other_forms();
  return table;
}

std::vector<FileKeys> all_keys() {
  return {keys_of_conversation(),     keys_of_sharegpt(),   keys_of_completion(),
          keys_of_alpaca(),           keys_of_text(),       keys_of_pair(),
          keys_of_message(),          keys_of_part(),       keys_of_rendered_line(),
          keys_of_rendered_message(), keys_of_other_forms()};
}

}  // namespace jsonl
