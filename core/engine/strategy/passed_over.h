#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/model.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

inline constexpr const char* passed_over_fix =
    "let the model call that layer's forward, which asks the port (docs/plugins.md, \"Layers\"), or leave out what "
    "fills it";

/// What is said of ports of these units that must act and that their forwards so far have not asked: who fills them,
/// and where. Empty: all were asked.
std::string passed_over(const std::vector<nn::Unit*>& units);

/// Throws Error for a port which only ranks that share the columns of rows ask, where none do.
void refuse_unasked(const nn::Unit& unit, const layout::Mesh& mesh);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
