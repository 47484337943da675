#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Adds an option that O has from a struct that it derives from.
template <class O, class Base, class M>
config::OptionBuilder add_option(config::OptionTable<O>& table, const std::string& key, M Base::*member) {
  return table.add(key, static_cast<M O::*>(member));
}

/// Where such an option was set: options.where() of it.
template <class O, class Base, class M>
std::string where(const config::Options<O>& options, M Base::*member) {
  return options.where(static_cast<M O::*>(member));
}

/// Whether a layer above the defaults set it.
template <class O, class Base, class M>
bool is_set(const config::Options<O>& options, M Base::*member) {
  return options.is_set(static_cast<M O::*>(member));
}

}  // namespace nn
CAPSTAN_END_NAMESPACE
