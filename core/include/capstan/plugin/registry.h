#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/file_keys.h>
#include <capstan/config/options.h>
#include <capstan/plugin/hint.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// A strategy's options that reduce a run's memory: `capstan check --gpu` tries them if the run does not fit. An
/// options struct lists its own in `static std::vector<plugin::Saving> savings()`.
struct Saving {
  /// Tried and listed in this order, cheapest first. Offload is also tried together with recompute.
  enum class By { recomputing, sharding, offloading };
  By by = By::sharding;
  std::string words;                 ///< "shard everything"
  std::vector<std::string> options;  ///< options of the plugin's own table: "mode=full_shard"
};

/// Makes one object of a plugin from its table of the configuration. Faults go into the Diagnostics.
/// The pointer is a std::shared_ptr<Interface> of the kind's interface (nn::Model, strategy::Strategy,
/// optimizer::Rule, objective::Objective, data::Data, tokenizer::Opener, monitor::Monitor); only the kind's own header
/// casts it back.
using Factory = std::function<std::shared_ptr<void>(const config::Section&, Diagnostics&)>;

/// One thing that a plugin offers.
struct Registration {
  std::string kind;
  std::string name;
  config::Schema schema;
  config::Presets presets;  ///< a model's: by name, the options that make a published model of it
  /// A model's, by model_type: what transformers takes for an option that a config.json of this family does not say.
  config::Presets file_defaults;
  std::vector<config::FileKeys> file_keys;  ///< the keys of other programs' files that the plugin reads
  std::vector<Saving> savings;              ///< a strategy's
  std::vector<Hint> hints;                  ///< other programs' words
  Factory make;
  std::string version;
  std::string summary;
  std::string file;  ///< the shared library it came from
};

/// Everything that loaded plugins registered, by (kind, name). Knows no kind. Not thread-safe: filled at start.
class Registry {
 public:
  /// Throws Error when (kind, name) is taken, naming both files. References to registrations stay valid.
  void add(Registration registration);
  /// Null when there is none.
  const Registration* find(const std::string& kind, const std::string& name) const;
  /// In the order in which they were added.
  const std::deque<Registration>& all() const { return all_; }

  /// What the host knows about the file whose register_types runs now; add() writes it over what it is given.
  void set_current(Registration about) { current_ = std::move(about); }

 private:
  std::deque<Registration> all_;
  Registration current_;
};

/// Registers Implementation (constructed from config::Options<O>) under the loading plugin's own kind and name, with
/// O::presets(), O::file_defaults(), O::file_keys(), O::savings() and O::hints() where O has these.
template <class Interface, class Implementation, class O>
void add_type(Registry& registry) {
  Registration registration;
  registration.schema = config::Options<O>::schema();
  if constexpr (requires { O::presets(); }) registration.presets = O::presets();
  if constexpr (requires { O::file_defaults(); }) registration.file_defaults = O::file_defaults();
  if constexpr (requires { O::file_keys(); }) registration.file_keys = O::file_keys();
  if constexpr (requires { O::savings(); }) registration.savings = O::savings();
  if constexpr (requires { O::hints(); }) registration.hints = O::hints();
  registration.make = [](const config::Section& section, Diagnostics& diagnostics) -> std::shared_ptr<void> {
    config::Options<O> options(section, diagnostics);
    return std::shared_ptr<Interface>(std::make_shared<Implementation>(std::move(options)));
  };
  registry.add(std::move(registration));
}

}  // namespace plugin
CAPSTAN_END_NAMESPACE
