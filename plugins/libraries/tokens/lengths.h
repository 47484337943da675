#pragma once
#include <capstan/data/source.h>
#include <capstan/session/sample_lengths.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tokens {

using Lengths = std::vector<capstan::session::SampleLength>;

/// The tokens of a sequence that bear loss; nothing predicts the first one.
std::int64_t targets_of(const capstan::data::SequenceView& sequence);

capstan::session::SampleLength length_of(const capstan::data::Sample& sample);

/// Whose lengths are wanted, and where they are kept.
struct Measured {
  std::string path;                  ///< what messages call the samples' file
  std::string items;                 ///< what they call the samples: "lines"
  std::size_t bytes = 0;             ///< of their texts; a process measures few by itself and keeps nothing
  std::function<std::string()> key;  ///< what the samples are made of: data::content_key() of a file, options
  std::filesystem::path folder;      ///< where lengths are kept; empty: data::derived_folder()
  std::string advice;                ///< what to do where the folder cannot be written to
};

/// The lengths of all samples of a source that cuts nothing. They are measured on all cores, once a node, and found
/// again as long as key, tokenizer and samples are the same; progress goes into the log. get() is called from several
/// threads. Throws what get() throws of the first sample that it was seen to throw for.
Lengths lengths_of(const capstan::data::DataSource& source, const capstan::tokenizer::Tokenizer& tokenizer,
                   const Measured& what);

}  // namespace tokens
