#pragma once
// Files of tokens, and streams that are opened from them.
#include "plugins/data/stream/stream.h"
#include "tokenizer/byte_tokenizer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "streams/stream_writer.h"
#include "support/folder.h"
#include "support/options.h"

namespace stream_files {

using Ids = std::vector<std::int64_t>;
using Values = capstan::testing::OptionValues;

/// Writes corpus.bin and corpus.idx; returns what both begin with.
inline std::string write_pair(const test::Folder& folder, const std::vector<Ids>& documents,
                              streams::TokenType type = streams::TokenType::uint16,
                              const std::string& name = "corpus") {
  streams::StreamWriter writer(folder / (name + ".bin"), type);
  for (const auto& document : documents) {
    streams::TokenBatch batch;
    streams::append_bytes(type, document, batch.bytes);
    batch.lengths = {static_cast<std::int32_t>(document.size())};
    writer.add(batch);
  }
  writer.finish(folder / (name + ".idx"));
  return (folder / name).string();
}

inline std::string bytes_of(const Ids& ids, streams::TokenType type = streams::TokenType::uint16) {
  std::string bytes;
  streams::append_bytes(type, ids, bytes);
  return bytes;
}

/// A document of tokens from `first` on.
inline Ids counted_from(std::int64_t first, std::size_t length) {
  Ids ids(length);
  for (std::size_t i = 0; i < length; ++i) ids[i] = first + static_cast<std::int64_t>(i);
  return ids;
}

inline stream::StreamData data_of(const test::Folder& folder, const std::string& train, Values values = {}) {
  values.emplace_back("derived", (folder / "derived").string());
  values.emplace_back("train", train);
  return stream::StreamData(capstan::testing::options_of<stream::StreamOptions>("data", values));
}

inline std::shared_ptr<capstan::data::DataSource> opened(const stream::StreamData& data, std::int64_t length,
                                                         std::int64_t vocab_size = 1000) {
  return data.open(
      {capstan::data::Split::train, std::make_shared<capstan::tokenizer::ByteTokenizer>(), length, vocab_size});
}

inline std::vector<capstan::data::Sample> samples_of(const stream::StreamData& data, std::int64_t length,
                                                     std::int64_t vocab_size = 1000) {
  const auto source = opened(data, length, vocab_size);
  std::vector<capstan::data::Sample> all;
  for (std::int64_t i = 0; i < source->size(); ++i) all.push_back(source->get(i));
  return all;
}

}  // namespace stream_files
