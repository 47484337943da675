#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// What training data is, whatever its files are called: for a run that resumes.
struct Content {
  std::string samples;                       ///< XXH64 of those that were looked at, as the model sees them
  std::map<std::string, std::string> files;  ///< by the option that names the file: XXH64 of its bytes
  std::string more;                          ///< DataSource::content()
};

/// Does a token of each of its sequences bear loss? The first one is never predicted.
bool has_target(const Sample& sample);

/// What to do about one that has none.
inline constexpr const char* no_target_fix =
    "let answers bear loss (the options of [data], such as max_length), take such samples out, or leave them out with "
    "data.no_target = \"skip\"";

/// What to do about samples of several documents, which would see each other.
inline constexpr const char* documents_fix =
    "set data.packing = true, which keeps them apart, or let the data plugin give them as one (the options of [data], "
    "such as attend)";

/// What to do about an evaluation of which all samples have none.
inline constexpr const char* no_target_in_evaluation =
    "let answers bear loss (the options of [data], such as max_length), or take the evaluation file out";

/// What a look at some samples shows.
struct Look {
  std::string sum;  ///< XXH64 of their tokens and of which of these bear loss
  std::int64_t looked_at = 0;
  std::int64_t without_target = 0;
  std::string first_without_target;  ///< its id
};
/// Looks at all of a few samples, or at 256 that are spread over many, until it has seen 262,144 tokens: the same ones
/// each time, and quick. `get` gives a sample; that it throws for one says nothing here.
Look look_at(std::int64_t samples, const std::function<Sample(std::int64_t)>& get);

/// Is an option of a data plugin only about evaluation? The names of such options begin with "eval".
bool is_of_evaluation(const std::string& key);
/// Takes the options out that are only about splits which are not read, since a file of theirs may be gone:
/// "eval_files", those of evaluation, or those of training ("train", "train_samples").
void leave_out_other_splits(config::Section& section, const std::string& split, const config::Schema& schema);
/// The regular files that a data plugin's options name, except for those of evaluation.
std::map<std::string, std::string> sums_of_files(const std::vector<config::Resolved>& options);

}  // namespace data
CAPSTAN_END_NAMESPACE
