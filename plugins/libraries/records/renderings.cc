#include "renderings.h"

#include "render_file.h"

#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <algorithm>

namespace jsonl {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

fs::path folder_of(const RenderRequest& request) {
  auto folder = request.folder.empty() ? data::derived_folder(data::process_environment()) : request.folder;
  if (!folder.empty()) return folder;
  throw Error("there is no folder for its rendered conversations: HOME is not set", request.advice,
              request.rows->path());
}

// All that the renderings depend on but the day of the first one.
std::string key_of(const RenderRequest& request) {
  auto key = cat(chat_template::state_of(request.source), request.rows->key(), "rows ", request.count,
                 request.pairs ? " in pairs\n" : "\n");
  for (const auto& [name, column] : request.rows->columns().entries()) key += cat(name, " = ", column, "\n");
  return key;
}

std::string rendered(const RenderRequest& request) {
  const auto name = fs::path(request.rows->path()).stem().string() + ".chat.jsonl";
  const data::DerivedFile file{folder_of(request), name, key_of(request), request.advice};
  return data::derive(file, [&](const fs::path& unfinished) { render_file(request, unfinished); }).string();
}

}  // namespace

Renderings::Renderings(const RenderRequest& request) : each_(request.pairs ? 2 : 1), lines_(rendered(request)) {
  const auto last = lines_.size() == 0 ? Json() : try_parse_json(lines_.line(lines_.size() - 1));
  if (lines_.size() != request.count * each_ + 1 || !last.is_object() || !last.contains("head"))
    throw Error("it is not what was rendered into it", "delete it: it is made again", lines_.path());
  head_ = chat_template::head_in(last.at("head"));
  for (const auto& [name, found] : last.at("dropped").items())
    dropped_[name] = {found.at(0).get<std::int64_t>(), found.at(1).get<std::int64_t>()};
}

chat_template::Rendered Renderings::get(std::int64_t row, std::int64_t answer) const {
  return chat_template::rendered_in(Json::parse(line(row, answer)));
}

std::size_t Renderings::size(std::int64_t row) const {
  std::size_t most = 0;
  for (std::int64_t answer = 0; answer < each_; ++answer) most = std::max(most, line(row, answer).size());
  return most;
}

}  // namespace jsonl
