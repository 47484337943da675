#pragma once
#include "jsonl_data.h"
#include "renderings.h"
#include "template.h"

#include <capstan/base/error.h>
#include <capstan/config/options.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

namespace jsonl {

/// How the options say that conversations are written; what is wrong with them is added.
Turns turns_of(const capstan::config::Options<JsonlOptions>& options, capstan::Diagnostics& diagnostics);

/// The first rows of a file, to be rendered by the model's own template. Throws Error where there is none.
RenderRequest render_request(const capstan::config::Options<JsonlOptions>& options,
                             const capstan::data::SplitRequest& request, std::shared_ptr<const Rows> rows,
                             std::int64_t count);

/// Throws Error for a variable that the template does not read.
void refuse_unread_variables(const capstan::config::Options<JsonlOptions>& options, const chat_template::Head& head);

/// What is to be known of rendered conversations, a sentence each: what the template drops, and that the end of a turn
/// is no token at which generation ends.
std::vector<std::string> warnings_of(const Renderings& renderings, const Rows& rows,
                                     const capstan::tokenizer::Tokenizer& tokenizer);

}  // namespace jsonl
