#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/data/source.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// Words for a data plugin's files in messages.
struct FileKind {
  std::string items;   ///< "questions": what the samples of a file are called
  std::string format;  ///< "a file of JSON lines": what is to be named
  std::string absent;  ///< what to do about a file that does not exist
};

/// The file of a split and how many of its samples are used, as a data plugin's options train, eval, train_samples and
/// eval_samples give them.
struct SplitFile {
  std::string key;    ///< "data.train"
  std::string where;  ///< what set it
  std::string path;   ///< empty: the configuration names none
  std::string samples_key;
  std::string samples_where;
  std::optional<std::int64_t> samples;  ///< the first ones; not set: all

  /// Is there a file to read? False, without a fault if the configuration wants none, else with one.
  bool is_there(const FileKind& kind, Diagnostics& diagnostics) const;
  /// Whether a file that holds `held` samples gives as many as are asked for. False with a fault.
  bool is_enough(std::int64_t held, const FileKind& kind, Diagnostics& diagnostics) const;
};

/// What the sets of these files are called (Data::evaluation_sets): as the file is, without its folder and what follows
/// the last dot.
std::vector<std::string> names_of_sets(const std::vector<std::string>& files);
/// A fault for names that are not letters, digits, "_" and "-", and for two files of the same name.
void check_names_of_sets(const std::vector<std::string>& files, const std::string& key, const std::string& where,
                         Diagnostics& diagnostics);

/// Declares the options of a struct that has these members; `eval_files` may be absent.
template <class T>
void describe_split_files(config::OptionTable<T>& t, const std::string& train, const std::string& eval,
                          const FileKind& kind) {
  t.add("train", &T::train).path().doc(train);
  t.add("eval", &T::eval).path().doc(eval);
  t.add("train_samples", &T::train_samples)
      .min(1)
      .doc("train on the file's first " + kind.items + " only; not set: all of them");
  t.add("eval_samples", &T::eval_samples)
      .min(1)
      .doc("evaluate on the file's first " + kind.items + " only; not set: all of them");
  if constexpr (requires { &T::eval_files; }) {
    t.add("eval_files", &T::eval_files)
        .path()
        .doc(
            "more files to evaluate on. The loss on data/hard.json is eval_loss_hard, after the file's name, and may "
            "be "
            "checkpoint.metric");
  }
}

/// One split's part of these options.
template <class T>
SplitFile split_file(const config::Options<T>& options, Split split) {
  const bool train = split == Split::train;
  const auto path = train ? &T::train : &T::eval;
  const auto samples = train ? &T::train_samples : &T::eval_samples;
  return {options.name(path),    options.where(path),    (*options).*path,
          options.name(samples), options.where(samples), (*options).*samples};
}

/// The file of one of the sets of eval_files; all of its samples are used.
template <class T>
SplitFile set_file(const config::Options<T>& options, std::size_t index) {
  return {options.name(&T::eval_files), options.where(&T::eval_files), options->eval_files.at(index), {}, {}, {}};
}

/// The files of all splits, whether the options name them or not, then those of eval_files. Two of these with the same
/// name are a fault.
template <class T>
std::vector<SplitFile> all_files(const config::Options<T>& options, Diagnostics& diagnostics) {
  std::vector<SplitFile> all{split_file(options, Split::train), split_file(options, Split::eval)};
  for (std::size_t i = 0; i < options->eval_files.size(); ++i) all.push_back(set_file(options, i));
  check_names_of_sets(options->eval_files, options.name(&T::eval_files), options.where(&T::eval_files), diagnostics);
  return all;
}

/// The file that a request is about.
template <class T>
SplitFile requested_file(const config::Options<T>& options, const SplitRequest& request) {
  const auto names = names_of_sets(options->eval_files);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == request.set) return set_file(options, i);
  }
  return split_file(options, request.split);
}

/// A fault when neither split has a file.
void require_file(const SplitFile& train, const SplitFile& eval, const std::string& where, const FileKind& kind,
                  Diagnostics& diagnostics);

}  // namespace data
CAPSTAN_END_NAMESPACE
