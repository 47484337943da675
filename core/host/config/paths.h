#pragma once
#include <capstan/config/value.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// The path as an absolute one: a relative path in a file starts at that file's folder, any other at the current
/// folder. An empty path stays empty.
std::string absolute_path(const std::string& path, const Origin& origin);
/// The same of an option's value, each path of a list.
void make_absolute(Value& value, const Origin& origin);

}  // namespace config
CAPSTAN_END_NAMESPACE
