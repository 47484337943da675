#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/token_cache.h"
#include "job/samples.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// A split that is read from a cache.
struct CachedSplit {
  std::string name;                                                               ///< "training samples"
  std::function<std::shared_ptr<const data::DataSource>&(job::Samples&)> source;  ///< where it is read from
  data::TokenCache cache;
};

/// What data.cache, or else the configuration's cache folder, asks for; nothing when neither is set. A cache is for the
/// data plugin (its file too), its options and the files that these name, the tokenizer's plugin with its file, options
/// and files, and the length of samples; files count by their bytes.
std::vector<CachedSplit> cached_splits(const setup::Configuration& config, const job::Plugins& plugins,
                                       const job::Samples& samples);

}  // namespace train
CAPSTAN_END_NAMESPACE
