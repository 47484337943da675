#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <optional>
#include <string>

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

/// Declares the four options of a struct that has these members.
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

/// A fault when neither split has a file.
void require_file(const SplitFile& train, const SplitFile& eval, const std::string& where, const FileKind& kind,
                  Diagnostics& diagnostics);

}  // namespace data
CAPSTAN_END_NAMESPACE
