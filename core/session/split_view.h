#pragma once
#include <capstan/session/split_view.h>

#include <memory>
#include <string>
#include <vector>

namespace capstan::session {

/// See SplitView::open.
std::unique_ptr<SplitView> open_split_view(const std::string& config, const std::vector<std::string>& overrides,
                                           data::Split split, const SplitView::Environment& env, plugin::Host& host);

}  // namespace capstan::session
