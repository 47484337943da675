#pragma once
#include <capstan/config/file_keys.h>

#include <vector>

namespace jsonl {

/// The keys of a line of each form, of a message, of a part of its content, and of forms that are not read.
const capstan::config::FileKeys& keys_of_conversation();
const capstan::config::FileKeys& keys_of_completion();
const capstan::config::FileKeys& keys_of_text();
const capstan::config::FileKeys& keys_of_pair();
const capstan::config::FileKeys& keys_of_sharegpt();
const capstan::config::FileKeys& keys_of_alpaca();
const capstan::config::FileKeys& keys_of_message();
const capstan::config::FileKeys& keys_of_part();
const capstan::config::FileKeys& keys_of_other_forms();

/// What the model's own template writes besides, of a line with a conversation and of its messages.
const capstan::config::FileKeys& keys_of_rendered_line();
const capstan::config::FileKeys& keys_of_rendered_message();

/// All of them, as `capstan reference --files` prints them.
std::vector<capstan::config::FileKeys> all_keys();

}  // namespace jsonl
