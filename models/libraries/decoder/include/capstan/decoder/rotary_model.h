#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/decoder/rotary_options.h>

#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

/// A model whose options derive from RotaryOptions: what is left to it are its spec() and its class' name in files.
template <class Options>
class RotaryModel : public Model {
 public:
  explicit RotaryModel(config::Options<Options> options) : options_(std::move(options)) {}
  /// For options that describe_rotary_scaling has described.
  void check(Diagnostics& diagnostics) const override {
    check_rotary(options_, diagnostics);
    check_rotary_scaling(options_, diagnostics);
  }

 protected:
  void describe_files(layout::FileMap& map) const override {
    describe_rotary_files(*options_, map);
    describe_rotary_scaling_files(*options_, map);
  }
  config::Options<Options> options_;
};

}  // namespace decoder
CAPSTAN_END_NAMESPACE
